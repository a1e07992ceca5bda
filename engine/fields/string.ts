import { jsonString, textCell } from './encode.ts';
import {
  type FieldOptions,
  type FieldType,
  indexedLength,
  indexedPrefix,
  type Lookup,
  lookupOf,
} from './type.ts';

/** Returns whether PostgreSQL can store a string. PostgreSQL rejects U+0000 and lone surrogates. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

/** Number of leading characters used to sort strings. The limit keeps cursors short. */
const sortLength = 500;
/**
 * SQL expression that repeats the highest code point. Appended to a prefix, it forms an upper bound for all
 * strings with that prefix.
 */
const highestSuffix = `repeat(chr(1114111), ${indexedLength})`;

/**
 * Returns an SQL expression for the index key of a string. Parameters need the column's collation, because
 * the result of `lower` depends on it.
 */
const key = (text: string, lookup?: Lookup, collate = ''): string =>
  indexedPrefix(lookup === undefined ? text : lookupOf(lookup).key(`(${text}${collate})`));

/** Unicode text without U+0000. By convention, it is a single line. */
export const stringType: FieldType = {
  expected: 'a string',
  json: { type: 'string' },
  body: ({ maxLength, pattern }: FieldOptions) => ({
    type: 'string',
    unicode: true,
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(pattern === undefined ? {} : { linearPattern: pattern }),
  }),
  // The "C" collation sorts identically on every server, unlike a locale's collation.
  columns: () => [{ suffix: '', type: 'text', collation: 'C', sample: "'value ' || n" }],
  empty: '',
  write: (value) => [value as string],
  encode: jsonString,
  csv: { encode: textCell, parse: (cell) => cell },
  form: { control: 'line', parse: (text) => text },
  fromText: { label: 'a text', fits: () => 'true', columns: (text) => [text] },
  order: (column) => [indexedPrefix(column), `left(${column}, ${sortLength})`],
  // A character can consist of two UTF-16 code units.
  toBound: (value) => [...value.slice(0, 2 * sortLength)].slice(0, sortLength).join(''),
  bounds: (placeholder) => [
    indexedPrefix(`${placeholder}::text`),
    `left(${placeholder}::text, ${sortLength})`,
  ],
  equals: (column, placeholder, lookup) => {
    const value = `${placeholder}::text`;
    return `(${key(column, lookup)} = ${key(value, lookup, ' collate "C"')} and ${column} = ${value})`;
  },
  among: (column, placeholder, lookup) => {
    const values = `${placeholder}::text[]`;
    const keys = `array(select ${key('_v', lookup, ' collate "C"')} from unnest(${values}) _v)`;
    return `(${key(column, lookup)} = any(${keys}) and ${column} = any(${values}))`;
  },
  startsWith: (column, placeholder) => {
    const value = `${placeholder}::text`;
    return `(${indexedPrefix(column)} >= ${indexedPrefix(value)} and ${indexedPrefix(column)} <= ${indexedPrefix(`(${value} || ${highestSuffix})`)} and starts_with(${column}, ${value}))`;
  },
  contains: (column, placeholder) => `strpos(${column}, ${placeholder}::text) > 0`,
  distinct: (value) => ({
    // The hash distinguishes long strings with the same prefix.
    keys: [
      indexedPrefix(value),
      `case when length(${value}) > ${indexedLength} then md5(${value}) else '' end`,
    ],
    presence: `${value} <> ''`,
  }),
  parse: (text) => (isStorable(text) ? text : undefined),
  text: (column) => column,
  bounded: true,
  examples: ['Ada', 'Grüße, 世界 🌍', ' spaces kept ', 'line\nbreak', '<b>"quoted"</b>'],
};

/** Text with any number of lines. */
export const textType: FieldType = {
  ...stringType,
  form: { control: 'lines', parse: (text) => text.replaceAll('\r\n', '\n') },
  examples: ['First line.\nSecond line.', ''],
};
