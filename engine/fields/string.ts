import { jsonString } from './encode.ts';
import { indexedLength, indexedPrefix, type Lookup, lookupOf } from './lookups.ts';
import type { FieldOptions, FieldType } from './type.ts';

/** Whether PostgreSQL can hold a text: no U+0000, no lone surrogates. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

/** Characters of a text that its order depends on, so that a place in the order has a bounded size. */
const sortLength = 500;
/** The highest code point: no text that begins with another one comes after that one followed by these. */
const highestSuffix = `repeat(chr(1114111), ${indexedLength})`;

/** The indexed key of a text. The result of `lower` depends on the collation: a value needs the column's collation. */
const key = (text: string, lookup?: Lookup, collate = ''): string =>
  indexedPrefix(lookup === undefined ? text : lookupOf(lookup).key(`(${text}${collate})`));

/** Any Unicode text without U+0000, by convention on one line. */
export const stringType: FieldType = {
  expected: 'a string',
  json: { type: 'string' },
  body: ({ maxLength, pattern }: FieldOptions) => ({
    type: 'string',
    unicode: true,
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(pattern === undefined ? {} : { linearPattern: pattern }),
  }),
  // "C" is the same order on every server; a locale's order differs between them.
  columns: () => [{ suffix: '', type: 'text', collation: 'C' }],
  empty: '',
  write: (value) => [value as string],
  encode: jsonString,
  order: (column) => [indexedPrefix(column), `left(${column}, ${sortLength})`],
  // A character may be two UTF-16 code units.
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
    // Beyond the beginning a hash stands for the text; the same one for all short texts.
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

/** A string that may have several lines. */
export const textType: FieldType = { ...stringType, examples: ['First line.\nSecond line.', ''] };
