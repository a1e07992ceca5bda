import { jsonString, stringCells, verbatim } from './encode.ts';
import { bigintType, formNumber, int64FromText, valueDistinction } from './numbers.ts';
import type { FieldType } from './type.ts';

/** The ID of a record in the same organization, or null. Foreign keys reject other IDs. */
export const referenceType: FieldType = {
  expected: 'the id of a record (an integer) or null',
  expectedIfRequired: 'the id of a record (an integer)',
  expects: { type: 'record' },
  json: bigintType.json,
  body: () => ({ exact: 'int64' }),
  columns: () => [{ suffix: '', type: 'bigint', sample: 'n' }],
  write: (value) => bigintType.write?.(value) ?? [],
  encode: verbatim,
  csv: bigintType.csv,
  form: {
    control: 'suggestions',
    notation: { kind: 'reference' },
    // Accepts the format that pages display, for example "ID 12".
    parse: (text) => formNumber(text.replace(/^ID /, '')),
  },
  fromText: {
    ...int64FromText,
    label: 'the ID of a record',
    fits: (text, target) =>
      `case when ${int64FromText.fits(text, target)} then exists (select from ${target.referredTable} _r where _r."organization_id" = ${target.organization} and _r."id" = (${text})::numeric::bigint) else false end`,
  },
  wider: ['int64', 'number'],
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::bigint`],
  equals: (column, placeholder) => `${column} = ${placeholder}::bigint`,
  among: (column, placeholder) => `${column} = any(${placeholder}::bigint[])`,
  distinct: valueDistinction,
  parse: (text) => bigintType.parse?.(text),
  operand: 'reference',
  groupKey: (column) => column,
  refers: true,
  examples: [null],
};

/** Text from a referenced record. It is not stored, but read together with the record. */
export const joinedType: FieldType = {
  expected: 'a string',
  expects: { type: 'string' },
  json: { type: 'string' },
  encode: jsonString,
  csv: stringCells,
  form: { control: 'line', parse: (text) => text },
  joins: true,
  examples: [''],
};
