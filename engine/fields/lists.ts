import type { Expectation } from '../errors.ts';
import { type Encoder, textCell, verbatim } from './encode.ts';
import { decimalText, integerText, parseExactJson } from './exact-json.ts';
import { integerType, numberOrText, numberType } from './numbers.ts';
import { isStorable } from './string.ts';
import { type FieldType, type JsonSchema, trimmedText } from './type.ts';

/** Default for the maximum number of values in a list. */
export const defaultMaxValues = 100;
/** Maximum length of a text in a list, in characters. PostgreSQL limits the entries of a GIN index to about 2,700 bytes. */
const maxTextLength = 500;

/** How the values of a list are validated, stored and written as text. */
interface ElementKind {
  /** Completes "<field>[0] must be …". */
  readonly expected: string;
  readonly expects?: Expectation | undefined;
  /** Completes "a list of …". */
  readonly plural: string;
  readonly json: JsonSchema;
  /** Schema that validates a value in a body. */
  readonly body: JsonSchema;
  /** PostgreSQL type. */
  readonly sql: string;
  readonly collation?: string;
  /** Converts a validated value to text. */
  readonly write: (value: unknown) => string;
  /** Converts text to a JSON value. Returns text that cannot be converted unchanged, so that validation rejects it. */
  readonly parse: (text: string) => unknown;
  /** Converts the text of a query parameter. Returns undefined if it is invalid. */
  readonly parseParameter: (text: string) => string | undefined;
  /** Returns an SQL condition that a text can be converted. */
  readonly fits: (text: string) => string;
  readonly example: unknown;
}

/** Conversions to numbers and texts do not depend on the table. */
const noTarget = { referredTable: '', organization: '', isMember: () => 'true' };

/** Returns the parts of a kind that follow from the type of a field with a single number. */
const numericKind = ({ expected, expects, json, parse, fromText }: FieldType) => ({
  expected,
  expects,
  json,
  parse: numberOrText,
  parseParameter: (text: string) => parse?.(text),
  fits: (text: string) => fromText?.fits(text, noTarget) ?? 'false',
});

const elementKinds = {
  string: {
    expected: `a string of at most ${maxTextLength} characters`,
    expects: { type: 'text', maxLength: maxTextLength },
    plural: `strings of at most ${maxTextLength} characters`,
    json: { type: 'string', maxLength: maxTextLength },
    body: { type: 'string', unicode: true, maxLength: maxTextLength },
    sql: 'text',
    collation: 'C',
    write: String,
    parse: (text) => text,
    parseParameter: (text) => (isStorable(text) ? text : undefined),
    fits: (text) => `length(${text}) <= ${maxTextLength}`,
    example: 'sea view',
  },
  integer: {
    ...numericKind(integerType),
    plural: 'integers of 32 bits',
    body: { exact: { kind: 'int32', orNull: false } },
    sql: 'integer',
    write: (value) => integerText(value) ?? '0',
    example: 7,
  },
  number: {
    ...numericKind(numberType),
    plural: 'numbers',
    body: { exact: { kind: 'decimal', orNull: false } },
    sql: 'numeric',
    write: (value) => decimalText(value) ?? '0',
    example: 2.5,
  },
} as const satisfies Readonly<Record<string, ElementKind>>;

/** The type of a list's values. */
export type ElementName = keyof typeof elementKinds;
/** The names of the types of values. */
export const elementNames = Object.keys(elementKinds) as readonly ElementName[];

/** Returns a text as an element of a PostgreSQL array literal. */
const element = (text: string): string => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

/** Returns whether texts can be separated by semicolons, so that splitting the result returns the same texts. */
const areSeparable = (texts: readonly string[]): boolean =>
  texts.every((text) => /^[^\s;[]([^;\r\n]*[^\s;])?$/.test(text));

/** Returns whether texts can be written on a line each, so that splitting the lines returns the same texts. */
const areLines = (texts: readonly string[]): boolean =>
  texts.every((text) => /^[^\s[]([^\r\n]*[^\s])?$/.test(text));

/** Splits text into values without surrounding spaces. Text in JSON's notation is a JSON array. */
function split(text: string, separator: RegExp, parse: (text: string) => unknown): unknown {
  if (text.trimStart().startsWith('[')) {
    try {
      const values = parseExactJson(text);
      if (Array.isArray(values)) return values;
    } catch {
      return text;
    }
  }
  return text.split(separator).flatMap((part) => {
    const trimmed = trimmedText(part);
    return trimmed === undefined ? [] : [parse(trimmed)];
  });
}

/**
 * Encodes a JSON array as a cell: the values, separated by semicolons, or the JSON array if a value contains one. An
 * empty array becomes `""`.
 */
const encodeCell: Encoder = (source, start, end, target, offset) => {
  const json = Buffer.from(source.buffer, source.byteOffset + start, end - start).toString();
  const texts = textsIn(json);
  const text = Buffer.from(areSeparable(texts) ? texts.join(';') : json);
  return textCell(text, 0, text.length, target, offset);
};

/** Returns the texts of a JSON array's values. Numbers keep their digits. */
const textsIn = (json: string): readonly string[] =>
  json.startsWith('["')
    ? (JSON.parse(json) as readonly string[])
    : json
        .slice(1, -1)
        .split(',')
        .filter((text) => text !== '');

/** Returns the type of a list of values, in the order in which they were sent. @param of the type of the values */
export function listType(of: ElementName): FieldType {
  const kind: ElementKind = elementKinds[of];
  const parseList = (separator: RegExp) => (text: string) => split(text, separator, kind.parse);
  const arrayOf = (text: string) => `array[(${text})::${kind.sql}]`;
  const type = `${kind.sql}[]`;
  return {
    expected: `a list of ${kind.plural}`,
    expects: { type: 'list' },
    json: { type: 'array', items: kind.json },
    element: {
      schema: kind.json,
      expected: kind.expected,
      expects: kind.expects,
      sql: kind.sql,
      example: kind.example,
    },
    body: () => ({ type: 'array', items: kind.body }),
    columns: () => [
      {
        suffix: '',
        type,
        ...(kind.collation !== undefined && { collation: kind.collation }),
        sample: `'{}'`,
      },
    ],
    empty: Object.freeze([]),
    write: (value) => [
      `{${(Array.isArray(value) ? value : []).map((item) => element(kind.write(item))).join()}}`,
    ],
    read: ([column = '']) => `array_to_json(${column})`,
    encode: verbatim,
    csv: {
      encode: encodeCell,
      parse: (cell) => (cell === undefined ? undefined : parseList(/;/)(cell)),
    },
    form: {
      control: 'lines',
      notation: { kind: 'lines' },
      parse: parseList(/\r?\n/),
      format: (value) => {
        if (!Array.isArray(value)) return String(value);
        const texts = value.map(String);
        return areLines(texts) ? texts.join('\n') : JSON.stringify(value);
      },
    },
    display: (text) => text.replaceAll('\n', ', '),
    fromText: {
      label: `a list of ${kind.plural}`,
      fits: kind.fits,
      columns: (text) => [arrayOf(text)],
    },
    equals: (column, placeholder) => `${column} @> array[${placeholder}::${kind.sql}]`,
    among: (column, placeholder) => `${column} && ${placeholder}::${type}`,
    includes: (column, placeholder) => `${column} @> ${placeholder}::${type}`,
    parse: kind.parseParameter,
    listed: true,
    examples: [[kind.example], []],
  };
}
