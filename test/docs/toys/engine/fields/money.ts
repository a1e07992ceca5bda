import { jsonString, stringCells } from './encode.ts';
import { valueDistinction } from './numbers.ts';
import { type FieldType, trimmedText } from './type.ts';

const pattern = '^[0-9]{1,10}[.][0-9]{2} [A-Z]{3}$';

/** An amount with its currency, stored in two columns and compared by the amount. */
export const moneyType: FieldType = {
  expected: 'an amount with its currency, such as 10.00 EUR',
  json: { type: 'string', format: 'money' },
  body: () => ({ type: 'string', pattern }),
  columns: () => [
    { suffix: '', type: 'numeric', sample: 'n' },
    { suffix: '_currency', type: 'text', collation: 'C', sample: "'EUR'" },
  ],
  write: (value) => String(value).split(' '),
  read: ([amount = '', currency = '']) => `${amount}::text || ' ' || ${currency}`,
  encode: jsonString,
  csv: stringCells,
  form: { control: 'line', help: 'For example, 10.00 EUR.', parse: trimmedText },
  display: (text) => text.replace(' ', '\u00a0'),
  fromText: {
    label: 'an amount with its currency',
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
  examples: ['10.00 EUR', '20.50 USD'],
};
