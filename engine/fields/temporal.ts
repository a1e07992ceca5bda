import { jsonString, stringCells } from './encode.ts';
import { localDate, localMoment } from './locale.ts';
import { valueDistinction } from './numbers.ts';
import { type FieldOptions, type FieldType, trimmedText } from './type.ts';

/**
 * Returns an SQL expression that formats a timestamp without time zone as in RFC 3339, but without an offset.
 * PostgreSQL removes trailing zeros.
 */
const local = (sql: string) => `replace((${sql})::text, ' ', 'T')`;
const interval = (offset: string) => `replace(${offset}, 'Z', '+00:00')::interval`;

const minuteMs = 60_000;
const dayMs = 86_400_000;

const rfc3339 =
  /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))$/;

/** A valid timestamp. */
interface Timestamp {
  /** Local time without its fraction, in milliseconds since 1970-01-01T00:00:00 in the same time zone. */
  readonly localMs: number;
  /** Up to six digits of the second's fraction without trailing zeros, or an empty string. */
  readonly fraction: string;
  /** UTC offset in upper case. */
  readonly offset: string;
  readonly offsetMs: number;
}

/**
 * Parses an RFC 3339 timestamp (section 5.6) in the years 0001 to 9999, without leap seconds.
 * @returns the timestamp with microsecond precision and its original UTC offset, or undefined if it is invalid
 */
function parseTimestamp(text: string): Timestamp | undefined {
  const match = rfc3339.exec(text);
  if (match === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match.slice(1, 7).map(Number);
  const [fraction = '', offset = '', sign, offsetHours, offsetMinutes] = match.slice(7);
  if (!isDay(year, month, day) || hour > 23 || minute > 59 || second > 59) return undefined;
  const shift = (Number(offsetHours ?? 0) * 60 + Number(offsetMinutes ?? 0)) * minuteMs;
  return {
    localMs: new Date(0).setUTCFullYear(year, month - 1, day) + ((hour * 60 + minute) * 60 + second) * 1000,
    fraction: fraction.slice(0, 6).replace(/0+$/, ''),
    offset: offset.toUpperCase(),
    offsetMs: sign === '-' ? -shift : shift,
  };
}

/** Returns whether a string is an RFC 3339 timestamp, see {@link timestampType}. */
export const isTimestamp = (text: string): boolean => parseTimestamp(text) !== undefined;

/** Number of days in each month, without leap days. */
const monthLengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Returns whether a date exists, in the years 0001 to 9999. */
function isDay(year: number, month: number, day: number): boolean {
  const isLeapYear = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const length = month === 2 && isLeapYear ? 29 : (monthLengths[month - 1] ?? 0);
  return year > 0 && day > 0 && day <= length;
}

/** Formats milliseconds since 1970 as a date and time without an offset. Years after 9999 have a sign and six digits. */
const timeText = (ms: number): string => new Date(ms).toISOString().slice(0, -5);
const fractionText = ({ fraction }: Timestamp): string => (fraction === '' ? '' : `.${fraction}`);

/** Formats a timestamp for PostgreSQL, in UTC. The offset can move the result into the year 0 or 10000. */
function utcText(timestamp: Timestamp): string {
  const { localMs, offsetMs } = timestamp;
  const text = `${timeText(localMs - offsetMs).replace(/^\+0/, '')}${fractionText(timestamp)}Z`;
  return text.startsWith('0000') ? `0001${text.slice(4)} BC` : text;
}

const day = /^(\d{4})-(\d\d)-(\d\d)$/;
const parseDate = (text: string): string | undefined => {
  const match = day.exec(text);
  return match !== null && isDay(Number(match[1]), Number(match[2]), Number(match[3])) ? text : undefined;
};

/**
 * Converts a date and time, as typed by users without seconds or offset, to an RFC 3339 timestamp in UTC.
 * @returns undefined if the text has a different format. The day or time can still be invalid
 */
export function completeTimestamp(text: string): string | undefined {
  const parts = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)? ?(Z|UTC|[+-]\d\d:\d\d)?$/i.exec(
    text.trim(),
  );
  if (parts === null) return undefined;
  const [, day, minutes = '00:00', seconds = ':00', offset = 'Z'] = parts;
  return `${day}T${minutes}${seconds}${offset.toUpperCase() === 'UTC' ? 'Z' : offset}`;
}

/**
 * Returns an SQL condition that is true if a string starts with a valid date. Its first ten characters must
 * match {@link dayPattern}.
 */
const isDateSql = (text: string): string => {
  const [year, month, day] = [`substr(${text}, 1, 4)`, `substr(${text}, 6, 2)`, `substr(${text}, 9, 2)`];
  const lastDay = `extract(day from make_date(${year}::int, ${month}::int, 1) + interval '1 month - 1 day')`;
  return `case when ${year} > '0000' and ${month} between '01' and '12' and ${day} > '00' then ${day}::int <= ${lastDay} else false end`;
};
/** Returns an SQL condition that is true if a string matches a pattern and starts with a valid date. */
const matchesDate = (pattern: string) => (text: string) =>
  `case when ${text} ~ '${pattern}' then ${isDateSql(text)} else false end`;
const dayPattern = '[0-9]{4}-[0-9]{2}-[0-9]{2}';
const offsetPattern = '([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])';
const timePattern = `[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?${offsetPattern}`;

/** Returns SQL expressions for a timestamp's columns. */
const assignTimestamp = ([time = '', offset = '']: readonly string[]): readonly string[] => [
  // Subtracts the offset instead of casting the text: PostgreSQL rejects offsets beyond 15:59, but RFC 3339 allows up
  // to 23:59.
  `((${time}::text::timestamp - ${interval(`${offset}::text`)}) at time zone 'UTC')`,
  `${offset}::text`,
];

/** The column with the point in time. */
const utcColumn = { suffix: '', type: 'timestamptz', sample: "now() - n * interval '1 minute'" };

/**
 * A point in time. Writable fields store the original UTC offset in a second column, because the API does not convert
 * time zones. Fields set by the server are in UTC.
 */
export const timestampType: FieldType = {
  expected: 'an RFC 3339 timestamp, such as 2026-03-01T09:30:00+01:00',
  expects: { type: 'timestamp' },
  json: { type: 'string', format: 'date-time' },
  body: () => ({ type: 'string', format: 'rfc3339' }),
  columns: ({ readOnly }: FieldOptions) => [
    utcColumn,
    ...(readOnly ? [] : [{ suffix: '_offset', type: 'text', collation: 'C', sample: "'Z'" }]),
  ],
  write: (value) => {
    const parsed = parseTimestamp(value as string);
    return parsed === undefined
      ? [null, null]
      : [`${timeText(parsed.localMs)}${fractionText(parsed)}`, parsed.offset];
  },
  assign: assignTimestamp,
  readOnly: {
    columns: () => [utcColumn],
    write: (value) => {
      const parsed = parseTimestamp(value as string);
      return [parsed === undefined ? null : utcText(parsed)];
    },
    assign: ([time = '']) => [`${time}::text::timestamptz`],
  },
  read: ([column = '', offset]) => {
    const utc = `${column} at time zone 'UTC'`;
    if (offset === undefined) return `${local(utc)} || 'Z'`;
    // The offset is null if the column was set with SQL.
    const stored = `coalesce(${offset}, 'Z')`;
    return `${local(`${utc} + ${interval(stored)}`)} || ${stored}`;
  },
  encode: jsonString,
  csv: stringCells,
  form: {
    control: 'line',
    notation: { kind: 'timestamp' },
    parse: (text) => completeTimestamp(text) ?? trimmedText(text),
  },
  display: localMoment,
  fromText: {
    label: 'a timestamp',
    fits: matchesDate(`^${dayPattern}(${timePattern})?$`),
    columns: (text) => {
      const zone = `upper(coalesce(substring(${text} from '[Zz]$|[+-][0-9]{2}:[0-9]{2}$'), 'Z'))`;
      const local = `regexp_replace(${text}, '([Zz]|[+-][0-9]{2}:[0-9]{2})$', '')`;
      return assignTimestamp([`(${local})`, `(${zone})`]);
    },
  },
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::text::timestamptz`],
  toBound: (value) => {
    if (value.endsWith('Z')) return value;
    const parsed = parseTimestamp(value);
    return parsed === undefined ? value : utcText(parsed);
  },
  equals: (column, placeholder) => `${column} = ${placeholder}::text::timestamptz`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[]::timestamptz[])`,
  parse: (text) => {
    // A "+" in a query string is decoded as a space.
    const parsed = parseTimestamp(text.replace(' ', '+'));
    return parsed === undefined ? undefined : utcText(parsed);
  },
  parseDay: (text, part) =>
    isDate(text) ? `${text}T${part === 'start' ? '00:00:00' : '23:59:59.999999'}Z` : undefined,
  shift: (value, days) => {
    const parsed = parseTimestamp(value);
    if (parsed === undefined) return value;
    return `${timeText(parsed.localMs + days * dayMs)}${fractionText(parsed)}${parsed.offset}`;
  },
  operand: 'timestamp',
  localTime: (column, zone) => `${column} at time zone ${zone()}`,
  examples: ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00.25+05:30', '1999-12-31T23:59:59.999999-08:00'],
};

/** A calendar date. */
export const dateType: FieldType = {
  expected: 'a date, such as 2026-03-01',
  expects: { type: 'date' },
  json: { type: 'string', format: 'date' },
  body: () => ({ type: 'string', format: 'calendarDate' }),
  columns: () => [{ suffix: '', type: 'date', sample: "date '2020-01-01' + n % 1000" }],
  write: (value) => [value as string],
  encode: jsonString,
  csv: stringCells,
  form: { control: 'day', parse: trimmedText },
  display: localDate,
  fromText: {
    label: 'a date without a time',
    fits: matchesDate(`^${dayPattern}([Tt ]00:00:00([.]0+)?${offsetPattern})?$`),
    columns: (text) => [`substr(${text}, 1, 10)::date`],
  },
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::text::date`],
  equals: (column, placeholder) => `${column} = ${placeholder}::text::date`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[]::date[])`,
  distinct: valueDistinction,
  parse: parseDate,
  shift: (value, days) =>
    new Date(Date.parse(`${value}T00:00:00Z`) + days * dayMs).toISOString().slice(0, 10),
  operand: 'date',
  groupKey: (column) => column,
  localTime: (column) => `${column}::timestamp`,
  examples: ['2026-03-01', '2024-02-29', '0001-01-01', '9999-12-31'],
};

/** Returns whether a string is a calendar date. */
export const isDate = (text: string): boolean => parseDate(text) !== undefined;

/**
 * Parses an RFC 3339 timestamp or a calendar date, which means midnight UTC on that date.
 * @returns text for a `timestamptz` parameter, or undefined if the input is neither
 */
export const parseInstant = (text: string): string | undefined =>
  isDate(text) ? `${text}T00:00:00Z` : timestampType.parse?.(text);
