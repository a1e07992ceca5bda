import { quoted } from './encode.ts';
import type { FieldOptions, FieldType } from './type.ts';

/** Whether PostgreSQL can hold a text: no U+0000, no lone surrogates. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

/** Characters of a text in an index: a B-tree entry is limited to about 2,700 bytes, a text is not. */
const indexed = 100;
export const head = (column: string) => `left(${column}, ${indexed})`;

/** Ways to find a record by a text: SQL that is equal for equivalent texts. Immutable, because it is indexed. */
export const lookups = {
  exact: (text: string) => text,
  /** E-mail addresses, compared without case. */
  caseless: (text: string) => `lower(${text})`,
  /** Telephone numbers, compared by digits: "+1 (555) 010-0" equals "0015550100". */
  digits: (text: string) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
} as const;

/** The name of a lookup. */
export type Lookup = keyof typeof lookups;

/** Any Unicode text without U+0000, by convention on one line. */
export const string: FieldType = {
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
  encode: quoted,
  order: (column) => [head(column), column],
  equals: (column, placeholder) =>
    `(${head(column)} = left(${placeholder}::text, ${indexed}) and ${column} = ${placeholder}::text)`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[])`,
  parse: (text) => (isStorable(text) ? text : undefined),
  text: (column) => column,
  bounded: true,
  examples: ['Ada', 'Grüße, 世界 🌍', ' spaces kept ', 'line\nbreak', '<b>"quoted"</b>'],
};

/** A string that may have several lines. */
export const text: FieldType = { ...string, examples: ['First line.\nSecond line.', ''] };
