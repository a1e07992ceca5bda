import { type Field, type FieldType, fieldTypes } from '../fields/index.ts';
import { literal, quote } from '../sql/index.ts';

/** SQL that converts a text to a value of a field type. */
interface Conversion {
  /** Completes "is not …". */
  readonly label: string;
  /** Returns an SQL condition that is true if the text is a valid value. Evaluating it never fails. */
  readonly fits: (text: string, target: Target) => string;
  /** Returns SQL expressions for the value's columns, computed from a valid text. */
  readonly columns: (text: string) => readonly string[];
}

/** The field to which a value is converted, and its record's organization. */
interface Target {
  readonly field: Field;
  /** SQL expression for the record's organization ID. */
  readonly organization: string;
}

const inRange = (pattern: string, low: string, high: string) => (text: string) =>
  `case when ${text} ~ '${pattern}' then (${text})::numeric between ${low} and ${high} else false end`;
const wholeNumber = '^[+-]?[0-9]{1,19}([.]0+)?$';
const toInteger = (type: string) => (text: string) => [`(${text})::numeric::${type}`];
const int64 = inRange(wholeNumber, '-9223372036854775808', '9223372036854775807');

/** Returns an SQL condition that is true if the first ten characters of a text, in the format of `day`, are a valid date. */
const isDate = (text: string): string => {
  const [year, month, day] = [`substr(${text}, 1, 4)`, `substr(${text}, 6, 2)`, `substr(${text}, 9, 2)`];
  const lastDay = `extract(day from make_date(${year}::int, ${month}::int, 1) + interval '1 month - 1 day')`;
  return `case when ${year} > '0000' and ${month} between '01' and '12' and ${day} > '00' then ${day}::int <= ${lastDay} else false end`;
};
const isDateText = (pattern: string) => (text: string) =>
  `case when ${text} ~ '${pattern}' then ${isDate(text)} else false end`;
const day = '[0-9]{4}-[0-9]{2}-[0-9]{2}';
const offset = '([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])';
const time = `[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?${offset}`;

const string: Conversion = { label: 'a text', fits: () => 'true', columns: (text) => [text] };

/** Conversions from text, by field type. */
const conversions: Readonly<Record<string, Conversion>> = {
  string,
  text: string,
  integer: {
    label: 'a 32-bit integer',
    fits: inRange(wholeNumber, '-2147483648', '2147483647'),
    columns: toInteger('integer'),
  },
  int64: { label: 'a 64-bit integer', fits: int64, columns: toInteger('bigint') },
  number: {
    label: 'a number',
    fits: (text) => `${text} ~ '^[+-]?[0-9]{1,100}([.][0-9]{1,100})?$'`,
    columns: (text) => [`(${text})::numeric`],
  },
  boolean: {
    label: 'true or false',
    fits: (text) => `lower(${text}) in ('true', 'false', '1', '0')`,
    columns: (text) => [`(lower(${text}) in ('true', '1'))`],
  },
  date: {
    label: 'a date without a time',
    fits: isDateText(`^${day}([Tt ]00:00:00([.]0+)?${offset})?$`),
    columns: (text) => [`substr(${text}, 1, 10)::date`],
  },
  timestamp: {
    label: 'a timestamp',
    fits: isDateText(`^${day}(${time})?$`),
    columns: (text) => {
      const zone = `upper(coalesce(substring(${text} from '[Zz]$|[+-][0-9]{2}:[0-9]{2}$'), 'Z'))`;
      const local = `regexp_replace(${text}, '([Zz]|[+-][0-9]{2}:[0-9]{2})$', '')`;
      return fieldTypes.timestamp.assign?.([`(${local})`, `(${zone})`]) ?? [];
    },
  },
  reference: {
    label: 'the ID of a record',
    fits: (text, { field, organization }) =>
      `case when ${int64(text)} then exists (select from ${quote(field.to ?? '')} _r where _r."organization_id" = ${organization} and _r."id" = (${text})::numeric::bigint) else false end`,
    columns: toInteger('bigint'),
  },
};

/** The conversion of a field's stored values. */
export interface FieldConversion {
  /** Completes "is not …". */
  readonly label: string;
  /** SQL condition that is true if the value can be converted. */
  readonly fits: string;
  /** SQL condition that is true if the record does not have a value, so that it gets the default. */
  readonly isNone: string;
  /** SQL expressions for the new columns. */
  readonly columns: readonly string[];
}

/**
 * Returns the conversion of a field's values to its new type.
 * @param from the name of the previous type
 * @param columns SQL expressions for the previous columns
 * @param instead SQL expression for a text that replaces invalid values
 */
export function convertField(
  field: Field,
  from: string,
  columns: readonly string[],
  organization: string,
  instead: string | undefined,
): FieldConversion {
  const [column = ''] = columns;
  const type: FieldType | undefined = Object.hasOwn(fieldTypes, from)
    ? fieldTypes[from as keyof typeof fieldTypes]
    : undefined;
  const isText = type?.text !== undefined;
  const storedText = isText ? column : (type?.read?.(columns) ?? `(${column})::text`);
  const conversion = conversions[field.typeName] ?? string;
  const target = { field, organization };
  const text =
    instead === undefined
      ? storedText
      : `(case when ${conversion.fits(storedText, target)} then ${storedText} else (${instead})::text end)`;
  const textTarget = fieldTypes[field.typeName] as FieldType;
  // An empty string counts as null unless the new type stores texts.
  const isNone = isText && textTarget.text === undefined ? `coalesce(${text}, '') = ''` : `${text} is null`;
  return {
    label: conversion.label,
    fits: conversion.fits(text, target),
    isNone,
    columns: conversion.columns(text),
  };
}

/**
 * Returns the SQL expression for the value of records that have none, or undefined if the field has no
 * default and is not nullable.
 */
export function defaultOf({ default: value, nullable, required }: Field): string | undefined {
  if (nullable) return 'null';
  if (required || value === null) return undefined;
  return typeof value === 'string' ? literal(value) : String(value);
}
