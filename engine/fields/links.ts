import { asItIs, quoted } from './encode.ts';
import { bigint, byValue } from './numbers.ts';
import type { FieldType } from './type.ts';

/** The id of a record of the same organization, or null. The database itself refuses any other. */
export const reference: FieldType = {
  expected: 'the id of a record (an integer) or null',
  json: bigint.json,
  body: () => ({ exact: 'int64' }),
  columns: () => [{ suffix: '', type: 'bigint' }],
  write: (value) => bigint.write?.(value) ?? [],
  encode: asItIs,
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::bigint`],
  equals: (column, placeholder) => `${column} = ${placeholder}::bigint`,
  among: (column, placeholder) => `${column} = any(${placeholder}::bigint[])`,
  distinct: byValue,
  parse: (text) => bigint.parse?.(text),
  refers: true,
  examples: [null],
};

/** Text of the record that a reference points to, read with the record and never stored. */
export const joined: FieldType = {
  expected: 'a string',
  json: { type: 'string' },
  encode: quoted,
  joins: true,
  examples: [''],
};
