import { jsonBoolean, valueCells } from './encode.ts';
import type { FieldType } from './type.ts';

const booleans: Readonly<Record<string, boolean | undefined>> = { true: true, false: false };

/** A boolean value. */
export const booleanType: FieldType = {
  expected: 'true or false',
  expects: { type: 'boolean' },
  json: { type: 'boolean' },
  columns: () => [{ suffix: '', type: 'boolean', sample: 'n % 2 = 0' }],
  empty: false,
  write: (value) => [String(value)],
  encode: jsonBoolean,
  csv: valueCells(jsonBoolean, (text) => booleans[text.toLowerCase()] ?? text),
  form: { control: 'checkbox', parse: (text) => text === 'true' },
  display: (text) => (text === 'true' ? 'yes' : 'no'),
  fromText: {
    label: 'true or false',
    fits: (text) => `lower(${text}) in ('true', 'false', '1', '0')`,
    columns: (text) => [`(lower(${text}) in ('true', '1'))`],
  },
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::text::boolean`],
  equals: (column, placeholder) => `${column} = ${placeholder}::text::boolean`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[]::boolean[])`,
  parse: (text) => (text === 'true' || text === 'false' ? text : undefined),
  operand: 'boolean',
  groupKey: (column) => column,
  examples: [true, false],
};
