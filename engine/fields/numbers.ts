import { decimal, valueCells, verbatim } from './encode.ts';
import { decimalText, int64, integerText, jsonNumber } from './exact-json.ts';
import { localNumber } from './locale.ts';
import { type Distinction, type FieldType, type TextConversion, trimmedText } from './type.ts';

const int32 = { min: -2147483648, max: 2147483647 };
const byColumn = (column: string) => [column] as const;
/** Returns the properties shared by types whose values PostgreSQL compares directly. */
const comparisons = (type: string) =>
  ({
    encode: verbatim,
    display: localNumber,
    groupKey: (column: string) => column,
    order: byColumn,
    bounds: (placeholder: string) => [`${placeholder}::${type}`],
    equals: (column: string, placeholder: string) => `${column} = ${placeholder}::${type}`,
    among: (column: string, placeholder: string) => `${column} = any(${placeholder}::${type}[])`,
  }) as const;

/** Parses trimmed text. Text that is not a number is returned unchanged, so that validation rejects it. */
export const numberOrText = (text: string): unknown => jsonNumber(text) ?? text;
const numberCells = valueCells(verbatim, numberOrText);

/** Parses the text of a form input. */
export const formNumber = (text: string): unknown =>
  trimmedText(text) === undefined ? undefined : (jsonNumber(text.trim()) ?? text);

/** Returns a conversion from text to whole numbers in a range. */
const wholeNumbers = (
  label: string,
  type: string,
  low: string | number,
  high: string | number,
): TextConversion => ({
  label,
  fits: (text) =>
    `case when ${text} ~ '^[+-]?[0-9]{1,19}([.]0+)?$' then (${text})::numeric between ${low} and ${high} else false end`,
  columns: (text) => [`(${text})::numeric::${type}`],
});

/** The conversion from text to 64-bit integers. */
export const int64FromText = wholeNumbers(
  'a 64-bit integer',
  'bigint',
  '-9223372036854775808',
  '9223372036854775807',
);

/** Returns a distinction that compares values directly and treats null as empty. */
export const valueDistinction = (value: string): Distinction => ({
  keys: [value],
  presence: `${value} is not null`,
});

/** Returns an SQL expression for a calculated number, or null if it is not in the range from -limit to limit - 1. */
const inRange =
  (limit: string) =>
  (value: string): string =>
    `case when ${value} >= -${limit}::numeric and ${value} < ${limit}::numeric then ${value} end`;

/** A 32-bit integer. */
export const integerType: FieldType = {
  expected: `an integer from ${int32.min} to ${int32.max}`,
  expects: { type: 'integer', ...int32 },
  json: { type: 'integer', format: 'int32', minimum: int32.min, maximum: int32.max },
  body: () => ({ exact: 'int32' }),
  columns: () => [{ suffix: '', type: 'integer', sample: 'n' }],
  empty: 0,
  write: (value) => [integerText(value) ?? null],
  ...comparisons('integer'),
  csv: numberCells,
  form: { control: 'number', parse: formNumber },
  fromText: wholeNumbers('a 32-bit integer', 'integer', int32.min, int32.max),
  wider: ['int64', 'number'],
  distinct: valueDistinction,
  parse: (text) => (isInt32(text) ? text : undefined),
  calculated: inRange('2147483648'),
  operand: 'integer',
  ranged: true,
  examples: [0, 7, -1, int32.max, int32.min],
};

/** A 64-bit integer, exact beyond the range of JavaScript numbers. */
export const bigintType: FieldType = {
  expected: 'a 64-bit integer',
  expects: { type: 'int64' },
  json: { type: 'integer', format: 'int64' },
  body: () => ({ exact: 'int64' }),
  columns: () => [{ suffix: '', type: 'bigint', sample: 'n' }],
  empty: 0,
  write: (value) => [integerText(value) ?? null],
  ...comparisons('bigint'),
  csv: numberCells,
  form: { control: 'number', parse: formNumber },
  fromText: int64FromText,
  wider: ['number'],
  distinct: valueDistinction,
  parse: int64,
  calculated: inRange('9223372036854775808'),
  operand: 'integer',
  ranged: true,
  examples: [0, 42, -42, 9007199254740991],
};

/** A decimal number, stored and returned without rounding. */
export const numberType: FieldType = {
  expected: 'a number',
  expects: { type: 'number' },
  json: { type: 'number' },
  body: () => ({ exact: 'decimal' }),
  columns: () => [{ suffix: '', type: 'numeric', sample: 'n' }],
  empty: 0,
  write: (value) => [decimalText(value) ?? null],
  ...comparisons('numeric'),
  encode: decimal,
  csv: valueCells(decimal, numberOrText),
  form: { control: 'number', parse: formNumber },
  fromText: {
    label: 'a number',
    fits: (text) => `${text} ~ '^[+-]?[0-9]{1,100}([.][0-9]{1,100})?$'`,
    columns: (text) => [`(${text})::numeric`],
  },
  parse: (text) => (/^-?\d{1,100}(\.\d{1,100})?$/.test(text) ? text : undefined),
  calculated: (value) => `trim_scale(round(${value}, 16))`,
  operand: 'number',
  ranged: true,
  examples: [0, 0.1, -12.5, 1000000.01],
};

/** Returns whether a string is a canonical 32-bit integer. */
function isInt32(text: string): boolean {
  const canonical = int64(text);
  return canonical !== undefined && Number(canonical) >= int32.min && Number(canonical) <= int32.max;
}
