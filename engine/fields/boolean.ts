import { jsonBoolean } from './encode.ts';
import type { FieldType } from './type.ts';

/** true or false. */
export const booleanType: FieldType = {
  expected: 'true or false',
  json: { type: 'boolean' },
  columns: () => [{ suffix: '', type: 'boolean' }],
  empty: false,
  write: (value) => [String(value)],
  encode: jsonBoolean,
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::text::boolean`],
  equals: (column, placeholder) => `${column} = ${placeholder}::text::boolean`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[]::boolean[])`,
  parse: (text) => (text === 'true' || text === 'false' ? text : undefined),
  examples: [true, false],
};
