import { jsonString, textCell } from './encode.ts';
import {
  type Comparisons,
  type FieldType,
  indexedLength,
  indexedPrefix,
  type Lookup,
  lookupOf,
} from './type.ts';

/** Returns whether PostgreSQL can store a string. PostgreSQL rejects U+0000 and lone surrogates. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

/** Number of leading characters used to sort and group strings. The limit keeps cursors and groups short. */
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

const noComparisons: Comparisons = {};

/** Returns the keys of a column and of a value, which are equal for equivalent strings. */
const wholeKeys = (comparison: Lookup, column: string, value: string): readonly [string, string] => {
  const { key: keyOf } = lookupOf(comparison);
  return [keyOf(column), keyOf(`(${value} collate "C")`)];
};

/** Unicode text without U+0000. By convention, it is a single line. */
export const stringType: FieldType = {
  expected: 'a string',
  expects: { type: 'string' },
  json: { type: 'string' },
  body: () => ({ type: 'string', unicode: true }),
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
  equals: (column, placeholder, { lookup, comparison } = noComparisons) => {
    const value = `${placeholder}::text`;
    if (comparison !== undefined) {
      const [stored, expected] = wholeKeys(comparison, column, value);
      // PostgreSQL estimates that half of the records meet the second condition. It would otherwise expect so few records
      // that it sorts them instead of reading them in the order of the index.
      return `(${key(column, comparison)} = ${key(value, comparison, ' collate "C"')} and coalesce(${stored} = ${expected} and ${stored} <> '', false))`;
    }
    return `(${key(column, lookup)} = ${key(value, lookup, ' collate "C"')} and ${column} = ${value})`;
  },
  among: (column, placeholder, { lookup, comparison } = noComparisons) => {
    const values = `${placeholder}::text[]`;
    if (comparison !== undefined) {
      const [stored, expected] = wholeKeys(comparison, column, '_v');
      const list = (item: string) => `array(select ${item} from unnest(${values}) _v)`;
      return `(${key(column, comparison)} = any(${list(key('_v', comparison, ' collate "C"'))}) and coalesce(${stored} = any(${list(expected)}) and ${stored} <> '', false))`;
    }
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
  operand: 'text',
  bounded: true,
  groupKey: (column) => `left(${column}, ${sortLength})`,
  examples: ['Ada', 'Grüße, 世界 🌍', ' spaces kept ', 'line\nbreak', '<b>"quoted"</b>'],
};

// Texts are too long to be the values of groups.
const { groupKey: _, ...ungroupedType } = stringType;

/** Text with any number of lines. */
export const textType: FieldType = {
  ...ungroupedType,
  form: { control: 'lines', parse: (text) => text.replaceAll('\r\n', '\n') },
  examples: ['First line.\nSecond line.', ''],
};
