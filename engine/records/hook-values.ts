import {
  decimalText,
  documentText,
  ExactNumber,
  type Field,
  integerText,
  parseExactJson,
  refersToMany,
} from '../fields/index.ts';
import type { Body } from './body.ts';

/**
 * A record's values, or some of them, as hooks see them: numbers of type `number` and amounts of money are decimal strings, and 64-bit
 * integers, for example IDs, are bigint. Other values are as in JSON.
 */
export type HookValues = Readonly<Record<string, unknown>>;

type FieldsByName = ReadonlyMap<string, Field>;

/** Returns fields by their names. */
export const fieldsByName = (fields: readonly Field[]): FieldsByName =>
  new Map(fields.map((field) => [field.name, field]));

/** Returns the values of a body as hooks see them. */
export const toHookValues = (fields: FieldsByName, body: Body): HookValues =>
  Object.freeze(
    Object.fromEntries(
      Object.entries(body).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, toHookValue(fields.get(name), value)]],
      ),
    ),
  );

/** Returns a record's values as hooks see them. @param json the record as JSON */
export const parseHookValues = (fields: FieldsByName, json: string): HookValues =>
  toHookValues(fields, parseExactJson(json, Number.POSITIVE_INFINITY) as Body);

function toHookValue(field: Field | undefined, value: unknown): unknown {
  if (value === null) return null;
  if (field?.typeName === 'number') return decimalText(value) ?? value;
  if (field !== undefined && refersToMany(field) && Array.isArray(value)) return value.map(integerOr);
  if (field !== undefined && isInt64(field)) return integerOr(value);
  if (field?.type.priced === true) {
    const { amount } = value as { readonly amount?: unknown };
    return { ...(value as object), amount: decimalText(amount) ?? amount };
  }
  return plainValue(value);
}

const isInt64 = ({ typeName, type, set }: Field): boolean =>
  typeName === 'int64' ||
  type.refers === true ||
  type.users === true ||
  (set !== undefined && set !== 'created' && set !== 'updated');

const integerOr = (value: unknown): unknown => {
  const text = integerText(value);
  return text === undefined ? plainValue(value) : BigInt(text);
};

/** Replaces integers that JavaScript would round by bigint. Other such numbers stay exact; their text is `String(value)`. */
function plainValue(value: unknown): unknown {
  if (value instanceof ExactNumber) {
    const text = integerText(value);
    return text === undefined ? value : BigInt(text);
  }
  if (Array.isArray(value)) return value.map(plainValue);
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plainValue(inner)]));
  return value;
}

/** Returns the body for values that a hook returns. Dates stand for their time, or for their day in UTC. */
export const fromHookValues = (fields: FieldsByName, values: HookValues): Body =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, fromHookValue(fields.get(name), value)]),
  );

function fromHookValue(field: Field | undefined, value: unknown): unknown {
  if (field?.typeName === 'number' && typeof value === 'string') return exactDecimal(value);
  if (field?.type.priced === true && typeof value === 'object' && value !== null) {
    const { amount } = value as { readonly amount?: unknown };
    return { ...value, amount: typeof amount === 'string' ? exactDecimal(amount) : jsonValue(amount) };
  }
  if (value instanceof Date) {
    const text = Number.isNaN(value.getTime()) ? '' : value.toISOString();
    return field?.typeName === 'date' ? text.slice(0, 10) : text;
  }
  return jsonValue(value);
}

/** Returns a decimal as a JSON number, or the text itself, which validation then rejects. */
const exactDecimal = (text: string): unknown => {
  const number = new ExactNumber(text);
  return decimalText(number) === undefined ? text : number;
};

function jsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return new ExactNumber(String(value));
  if (value instanceof ExactNumber) return value;
  if (Array.isArray(value)) return value.map(jsonValue);
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, jsonValue(inner)]));
  return value;
}

/** Returns values that a module returns, as JSON. */
export const hookValuesJson = (values: HookValues): string => documentText(fromHookValues(new Map(), values));
