import { decimal, verbatim } from './encode.ts';
import { decimalText, int64, integerText } from './exact.ts';
import type { Distinction, FieldType } from './type.ts';

const int32 = { min: -2147483648, max: 2147483647 };
const byColumn = (column: string) => [column] as const;
const comparable = (type: string) =>
  ({
    encode: verbatim,
    order: byColumn,
    bounds: (placeholder: string) => [`${placeholder}::${type}`],
    equals: (column: string, placeholder: string) => `${column} = ${placeholder}::${type}`,
    among: (column: string, placeholder: string) => `${column} = any(${placeholder}::${type}[])`,
  }) as const;

/** How a unique index tells the values of one column apart. */
export const valueDistinction = (value: string): Distinction => ({
  keys: [value],
  filled: `${value} is not null`,
});

/** A whole number of 32 bits. */
export const integerType: FieldType = {
  expected: `an integer from ${int32.min} to ${int32.max}`,
  json: { type: 'integer', format: 'int32', minimum: int32.min, maximum: int32.max },
  body: () => ({ exact: 'int32' }),
  columns: () => [{ suffix: '', type: 'integer' }],
  empty: 0,
  write: (value) => [integerText(value) ?? null],
  ...comparable('integer'),
  distinct: valueDistinction,
  parse: (text) => (isInt32(text) ? text : undefined),
  examples: [0, 7, -1, int32.max, int32.min],
};

/** A whole number of 64 bits, exact beyond the range of JavaScript's numbers. */
export const bigintType: FieldType = {
  expected: 'a 64-bit integer',
  json: { type: 'integer', format: 'int64' },
  body: () => ({ exact: 'int64' }),
  columns: () => [{ suffix: '', type: 'bigint' }],
  empty: 0,
  write: (value) => [integerText(value) ?? null],
  ...comparable('bigint'),
  distinct: valueDistinction,
  parse: int64,
  examples: [0, 42, -42, 9007199254740991],
};

/** A decimal number, stored and returned as it was written. */
export const numberType: FieldType = {
  expected: 'a number',
  json: { type: 'number' },
  body: () => ({ exact: 'decimal' }),
  columns: () => [{ suffix: '', type: 'numeric' }],
  empty: 0,
  write: (value) => [decimalText(value) ?? null],
  ...comparable('numeric'),
  encode: decimal,
  parse: (text) => (/^-?\d{1,100}(\.\d{1,100})?$/.test(text) ? text : undefined),
  examples: [0, 0.1, -12.5, 1000000.01],
};

/** Whether a text is a canonical 32-bit integer. */
function isInt32(text: string): boolean {
  const canonical = int64(text);
  return canonical !== undefined && Number(canonical) >= int32.min && Number(canonical) <= int32.max;
}
