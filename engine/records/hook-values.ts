import {
  decimalText,
  documentText,
  ExactNumber,
  type Field,
  integerText,
  type JsonSchema,
  parseOwnJson,
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
  toHookValues(fields, parseOwnJson(json) as Body);

function toHookValue(field: Field | undefined, value: unknown): unknown {
  if (value === null) return null;
  if (field?.typeName === 'number') return decimalText(value) ?? value;
  if (field !== undefined && refersToMany(field) && Array.isArray(value)) return value.map(integerOr);
  if (field?.alternatives !== undefined) {
    const { id } = value as { readonly id?: unknown };
    return { ...(value as object), id: integerOr(id) };
  }
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

/**
 * Returns the TypeScript type of a field's values.
 * @param part `record` for the values that hooks receive, `input` for the values that they return
 */
export function hookType(field: Field, part: 'record' | 'input'): string {
  const type = plainType(field, part === 'input');
  return field.nullable ? `${type} | null` : type;
}

function plainType(field: Field, isInput: boolean): string {
  const { typeName, type, alternatives, values } = field;
  const integer = isInput ? 'bigint | number' : 'bigint';
  const decimal = isInput ? 'string | number' : 'string';
  if (typeName === 'number') return decimal;
  if (type.priced === true) return `{ readonly amount: ${decimal}; readonly currency: string }`;
  if (refersToMany(field)) return `readonly (${integer})[]`;
  if (alternatives !== undefined) {
    const resources = alternatives.map(({ to = '' }) => JSON.stringify(to)).join(' | ');
    return `{ readonly resource: ${resources}; readonly id: ${integer} }`;
  }
  if (isInt64(field)) return integer;
  if (typeName === 'timestamp' || typeName === 'date') return isInput ? 'string | Date' : 'string';
  if (values !== undefined) {
    const known = values.list.map((value) => JSON.stringify(value)).join(' | ');
    // An empty text stands for an absent value.
    return values.accepted !== undefined ? `${known} | ""` : `${known} | (string & {})`;
  }
  if (type.custom === true) return 'Readonly<Record<string, unknown>>';
  return type.element === undefined ? jsonType(type.json) : `readonly ${jsonType(type.element.schema)}[]`;
}

/** Returns the TypeScript type of the values of a JSON Schema. */
function jsonType({ type }: JsonSchema): string {
  const name = [type].flat().find((each) => each !== 'null');
  if (name === 'integer') return 'number';
  return name === 'string' || name === 'boolean' ? name : 'unknown';
}

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
