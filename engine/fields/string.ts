import type { FieldOptions, FieldType } from './type.ts';

/** Whether PostgreSQL can hold a text: no U+0000, no lone surrogates. */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');

/** Characters of a text that an index holds: a B-tree entry is limited to about 2,700 bytes, a text is not. */
const indexed = 100;
export const head = (column: string) => `left(${column}, ${indexed})`;

/** Ways to find a record by a text: SQL of what is equal for texts that mean the same. Immutable: an index holds it. */
export const lookups = {
  exact: (text: string) => text,
  /** E-mail addresses: case is no difference. */
  caseless: (text: string) => `lower(${text})`,
  /** Telephone numbers: "+1 (555) 010-0" and "0015550100" are the same. */
  digits: (text: string) => `regexp_replace(regexp_replace(${text}, '\\D', '', 'g'), '^00', '')`,
} as const;

/** The name of a way to find a record by a text. */
export type Lookup = keyof typeof lookups;

/** Any Unicode text without U+0000, on one line by custom. */
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
  order: (column) => [head(column), column],
  equals: (column, placeholder) =>
    `(${head(column)} = left(${placeholder}::text, ${indexed}) and ${column} = ${placeholder}::text)`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[])`,
  parse: (text) => (isStorable(text) ? text : undefined),
  text: (column) => column,
  bounded: true,
  examples: ['Ada', 'Grüße, 世界 🌍', ' spaces kept ', 'line\nbreak', '<b>"quoted"</b>'],
};

/** A string that is expected to have several lines. */
export const text: FieldType = { ...string, examples: ['First line.\nSecond line.', ''] };
