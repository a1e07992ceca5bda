// JSON with exact numbers: 64-bit integers are bigints, and decimals are strings.

/**
 * Kinds of the numbers in a JSON value, keyed by member name. An array's kinds apply to its elements. A
 * function determines an object's kinds from its content.
 */
export interface Kinds {
  readonly [member: string]:
    | 'int64'
    | 'decimal'
    | Kinds
    | ((object: Readonly<Record<string, unknown>>) => Kinds);
}
type Kind = Kinds[string] | undefined;

/** A number in its original notation. */
class NumberText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * JSON functions that preserve the source text of numbers. TypeScript's type definitions do not include them
 * yet.
 */
const exact = JSON as unknown as {
  readonly rawJSON: (text: string) => unknown;
  readonly parse: (
    text: string,
    revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown;
};

/** Checks that the runtime supports exact numbers. @throws TypeError if it would round numbers */
export function requireExactNumbers(): void {
  if ('rawJSON' in JSON) return;
  throw new TypeError(
    'this runtime is too old: it does not support JSON.rawJSON and would round numbers. Use Node.js 22, Chrome 114, Firefox 135, Safari 18.4 or newer.',
  );
}

/**
 * Parses JSON. Numbers without a kind become JavaScript numbers.
 * @throws SyntaxError if the text is not valid JSON
 */
export const parse = (text: string, kinds: Kinds): unknown =>
  decode(
    exact.parse(text, (_, value, { source }) =>
      typeof value === 'number' ? new NumberText(source ?? '') : value,
    ),
    kinds,
  );

/**
 * Converts the numbers in a parsed value. Modifies the value in place, because copying records would take
 * longer than parsing them.
 */
function decode(value: unknown, kinds: Kind): unknown {
  const kind = typeof kinds === 'function' && isObject(value) ? kinds(value) : kinds;
  if (value instanceof NumberText) {
    if (kind === 'int64') return BigInt(value.text);
    return kind === 'decimal' ? value.text : Number(value.text);
  }
  if (Array.isArray(value)) for (const [index, item] of value.entries()) value[index] = decode(item, kind);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value))
      if (typeof item === 'object') value[name] = decode(item, kindOf(name, kind));
    if (typeof kind === 'object') makeSerializable(value, kind);
  }
  return value;
}

/**
 * Adds a `toJSON` method that makes `JSON.stringify` write exact numbers. Without it, a bigint throws a
 * TypeError and a decimal is written as a string. It is not enumerable, so that copies and comparisons ignore
 * it.
 */
function makeSerializable(object: Record<string, unknown>, kinds: Kinds): void {
  Object.defineProperty(object, 'toJSON', {
    configurable: true,
    writable: true,
    value(this: Readonly<Record<string, unknown>>) {
      return Object.fromEntries(
        Object.entries(this).map(([name, value]) => [
          name,
          // Nested objects have their own `toJSON` method.
          typeof value === 'object' ? value : encode(value, kindOf(name, kinds), name),
        ]),
      );
    },
  });
}

/** Writes a value as JSON. @throws TypeError if a number is not exact or a decimal is invalid */
export const stringify = (value: unknown, kinds: Kinds): string => JSON.stringify(encode(value, kinds, ''));

function encode(value: unknown, kind: Kind, name: string): unknown {
  if (typeof value === 'bigint') return exact.rawJSON(String(value));
  if (typeof value === 'string' && kind === 'decimal') {
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(value))
      throw new TypeError(`${name} must be a decimal number: ${value}`);
    return exact.rawJSON(value);
  }
  if (typeof value === 'number') {
    const isExact = kind === 'int64' ? Number.isSafeInteger(value) : Number.isFinite(value);
    if (!isExact) throw new TypeError(`${name} cannot be sent exactly: ${value}`);
  }
  if (Array.isArray(value)) return value.map((item) => encode(item, kind, name));
  if (!isObject(value)) return value;
  const members = Object.entries(value);
  return Object.fromEntries(members.map(([key, item]) => [key, encode(item, kindOf(key, kind), key)]));
}

/** Returns the kind of a member. */
const kindOf = (name: string, kind: Kind): Kind =>
  typeof kind === 'object' && Object.hasOwn(kind, name) ? kind[name] : undefined;

/** Returns whether a value is a plain object rather than, for example, a Date. */
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
