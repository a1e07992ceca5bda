import { jsonString, stringCells } from './encode.ts';
import { valueDistinction } from './numbers.ts';
import { type FieldType, trimmedText } from './type.ts';

const pattern = '^[0-9]{1,10}[.][0-9]{2} [a-z]{1,3}$';

/** A number with its unit, stored in two columns and compared by the number. */
export const measureType: FieldType = {
  expected: 'a number with its unit, such as 10.00 kg',
  json: { type: 'string', format: 'measure' },
  body: () => ({ type: 'string', pattern }),
  columns: () => [
    { suffix: '', type: 'numeric', sample: 'n' },
    { suffix: '_unit', type: 'text', collation: 'C', sample: "'kg'" },
  ],
  write: (value) => String(value).split(' '),
  read: ([number = '', unit = '']) => `${number}::text || ' ' || ${unit}`,
  encode: jsonString,
  csv: stringCells,
  form: { control: 'line', notation: { kind: 'example', example: '10.00 kg' }, parse: trimmedText },
  display: (text) => text.replace(' ', '\u00a0'),
  fromText: {
    label: 'a number with its unit',
    fits: (text) => `${text} ~ '${pattern}'`,
    columns: (text) => [`split_part(${text}, ' ', 1)::numeric`, `split_part(${text}, ' ', 2)`],
  },
  order: (column) => [column],
  bounds: (placeholder) => [`${placeholder}::numeric`],
  toBound: (value) => value.replace(/ .*/, ''),
  equals: (column, placeholder) => `${column} = ${placeholder}::numeric`,
  among: (column, placeholder) => `${column} = any(${placeholder}::numeric[])`,
  distinct: valueDistinction,
  parse: (text) => (new RegExp(pattern).test(text) ? text.replace(/ .*/, '') : undefined),
  examples: ['10.00 kg', '20.50 m'],
};
