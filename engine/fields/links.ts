import { jsonString, verbatim } from './encode.ts';
import { bigintType, valueDistinction } from './numbers.ts';
import type { FieldType } from './type.ts';

/** The ID of a record in the same organization, or null. Foreign keys reject other IDs. */
export const referenceType: FieldType = {
  expected: 'the id of a record (an integer) or null',
  json: bigintType.json,
  body: () => ({ exact: 'int64' }),
  columns: () => [{ suffix: '', type: 'bigint' }],
  write: (value) => bigintType.write?.(value) ?? [],
  encode: verbatim,
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::bigint`],
  equals: (column, placeholder) => `${column} = ${placeholder}::bigint`,
  among: (column, placeholder) => `${column} = any(${placeholder}::bigint[])`,
  distinct: valueDistinction,
  parse: (text) => bigintType.parse?.(text),
  refers: true,
  examples: [null],
};

/** Text from a referenced record. It is read with the record and not stored. */
export const joinedType: FieldType = {
  expected: 'a string',
  json: { type: 'string' },
  encode: jsonString,
  joins: true,
  examples: [''],
};
