import { type Encoder, jsonString, textCell, valueCells, verbatim } from './encode.ts';
import { decimalText, jsonNumber } from './exact-json.ts';
import { textFormatOf } from './formats.ts';
import { localNumber } from './locale.ts';
import { numberType } from './numbers.ts';
import { type FieldType, trimmedText } from './type.ts';

/** An amount of money, as sent and returned by the API. */
interface Money {
  readonly amount: unknown;
  readonly currency: string;
}

/** The value of `currency` for fields in which each record has its own currency. */
export const anyCurrency = 'any';

/** Suffix of the column with an amount's currency. The capital letter prevents collisions with field names. */
export const currencySuffix = '_Currency';

/** Returns whether a text is a current or former ISO 4217 code in uppercase. */
export const isCurrency = (text: string): boolean =>
  text === text.toUpperCase() && textFormatOf('currency').isValid(text);

/** Returns whether a JSON value is an amount of money. @param currency the only accepted currency, or `any` */
export function isMoney(value: unknown, currency: string): value is Money {
  if (typeof value !== 'object' || value === null) return false;
  const money = value as Partial<Money>;
  return (
    decimalText(money.amount) !== undefined &&
    typeof money.currency === 'string' &&
    (currency === anyCurrency ? isCurrency(money.currency) : money.currency === currency)
  );
}

/** Returns the number to which a rule applies: the amount of money, or the value itself. */
export const amountOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'amount' in value ? value.amount : value;

const digits = '-?[0-9]{1,100}(?:[.][0-9]{1,100})?';

/**
 * Regular expressions for the text of a value: "12.5" or "12.5 EUR", as in CSV files, and the JSON in the change log.
 * @param code regular expression for the currency
 */
const patternsOf = (code: string, isOptional: boolean) => ({
  plain: `^(${digits})${isOptional ? `(?: (${code}))?` : ` (${code})`}$`,
  json: `^[{]"amount":(${digits}),"currency":"(${code})"[}]$`,
});

/** Encodes the JSON of a value as a cell. @param pattern matches the parts of the JSON that the cell consists of */
const cellEncoder =
  (isFixed: boolean): Encoder =>
  (source, start, end, target, offset) => {
    const json = Buffer.from(source.buffer, source.byteOffset + start, end - start).toString();
    const text = Buffer.from(json.replace(/^\{"amount":(.*),"currency":"(.*)"\}$/, isFixed ? '$1' : '$1 $2'));
    return textCell(text, 0, text.length, target, offset);
  };

const codeExample = 'EUR';

/** Type of the currencies of amounts. They are parts of values, so no field has this type. */
const currencyType: FieldType = {
  expected: 'an ISO 4217 currency code, for example EUR',
  expects: { type: 'currency' },
  json: { type: 'string', pattern: '^[A-Z]{3}$' },
  encode: jsonString,
  csv: { encode: textCell, parse: (cell) => cell },
  form: { control: 'line', notation: { kind: 'example', example: 'EUR' }, parse: trimmedText },
  equals: (column, placeholder) => `${column} = ${placeholder}::text`,
  among: (column, placeholder) => `${column} = any(${placeholder}::text[])`,
  parse: (text) => (isCurrency(text.toUpperCase()) ? text.toUpperCase() : undefined),
  groupKey: (column) => column,
  examples: [codeExample],
};

/** Returns the type of an amount of money. @param currency an ISO 4217 code, or `any` if each record has its own */
export function moneyType(currency: string): FieldType {
  const isFixed = currency !== anyCurrency;
  const example = isFixed ? currency : codeExample;
  const patterns = patternsOf(isFixed ? currency : '[A-Z]{3}', isFixed);
  const plain = new RegExp(patterns.plain);
  const columnsOf = [
    { suffix: '', type: 'numeric', sample: 'n' },
    ...(isFixed ? [] : [{ suffix: currencySuffix, type: 'text', collation: 'C', sample: `'${example}'` }]),
  ];
  /** Parses "12.5" or "12.5 EUR". Returns other text unchanged, so that validation rejects it. */
  const parse = (text: string): unknown => {
    const [, amount, code = currency] = plain.exec(text.trim()) ?? [];
    return amount === undefined ? text : { amount: jsonNumber(canonical(amount)), currency: code };
  };
  const amountSql = (text: string) =>
    `coalesce(substring(${text} from '${patterns.plain}'), substring(${text} from '${patterns.json}'))::numeric`;
  const expected = `an object such as {"amount":12.5,"currency":"${example}"}${isFixed ? '' : ' with the ISO 4217 code of a currency'}`;
  return {
    expected,
    expects: { type: 'money', currency: example },
    json: {
      type: 'object',
      required: ['amount', 'currency'],
      properties: {
        amount: numberType.json,
        currency: {
          type: 'string',
          ...(isFixed ? { enum: [currency] } : { pattern: '^[A-Z]{3}$', examples: [example] }),
        },
      },
    },
    body: () => ({ money: currency }),
    parameter: {
      json: numberType.json,
      expected: numberType.expected,
      expects: numberType.expects,
    },
    columns: () => columnsOf,
    write: (value) =>
      isMoney(value, currency)
        ? [decimalText(value.amount) ?? null, ...(isFixed ? [] : [value.currency])]
        : columnsOf.map(() => null),
    read: ([amount = '', code = `'${example}'`]) =>
      `('{"amount":' || to_json(${amount}) || ',"currency":"' || ${code} || '"}')::json`,
    asText: ([amount = '', code]) => (code === undefined ? `${amount}::text` : `${amount} || ' ' || ${code}`),
    encode: verbatim,
    csv: valueCells(cellEncoder(isFixed), parse),
    form: {
      control: 'line',
      notation: isFixed ? { kind: 'amount', currency } : { kind: 'example', example: '12.50 EUR' },
      parse: (text) => (trimmedText(text) === undefined ? undefined : parse(text)),
      format: (value) =>
        isMoney(value, currency)
          ? `${decimalText(value.amount)}${isFixed ? '' : ` ${value.currency}`}`
          : String(value ?? ''),
    },
    display: (text, locale) => {
      const [amount = '', code = currency] = text.split(' ');
      return `${localNumber(amount, locale)} ${code}`;
    },
    fromText: {
      label: isFixed ? `an amount in ${currency}` : 'an amount with a currency, such as 12.50 EUR',
      fits: (text) => `(${text} ~ '${patterns.plain}' or ${text} ~ '${patterns.json}')`,
      columns: (text) => [
        amountSql(text),
        ...(isFixed ? [] : [`substring(${text} from '([A-Z]{3})"?[}]?$')`]),
      ],
    },
    order: (column) => [column],
    bounds: (placeholder) => [`${placeholder}::numeric`],
    // The JSON of a value in a response.
    toBound: (value) => /^\{"amount":([^,]*),/.exec(value)?.[1] ?? value,
    equals: (column, placeholder) => `${column} = ${placeholder}::numeric`,
    among: (column, placeholder) => `${column} = any(${placeholder}::numeric[])`,
    parse: (text) => numberType.parse?.(text),
    calculated: (value) => numberType.calculated?.(value) ?? value,
    ...(!isFixed && {
      integrity: ([amount = '', code = '']) =>
        `(case when ${amount} is null then ${code} is null else ${code} is not null and ${code} ~ '^[A-Z]{3}$' end)`,
    }),
    ...(!isFixed && { currency: currencyType }),
    ranged: true,
    priced: true,
    examples: [{ amount: 12.5, currency: example }],
  };
}

/** Removes leading zeros, which JSON does not allow. */
const canonical = (amount: string): string => amount.replace(/^(-?)0+(?=\d)/, '$1');
