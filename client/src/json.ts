// JSON whose numbers keep every digit: 64-bit integers are bigints, decimals are texts.

/**
 * The types of the numbers in a JSON text, by the names of their members. Arrays have the kinds of their elements. A
 * function returns the kinds of an object that depend on what it contains.
 */
export interface Kinds {
  readonly [member: string]:
    | 'int64'
    | 'decimal'
    | Kinds
    | ((object: Readonly<Record<string, unknown>>) => Kinds);
}
type Kind = Kinds[string] | undefined;

/** A number as the text has it. */
class NumberText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** JSON with access to the source text of numbers, which TypeScript's libraries do not declare yet. */
const exact = JSON as unknown as {
  readonly rawJSON: (text: string) => unknown;
  readonly parse: (
    text: string,
    revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown;
};

/** Checks that the runtime gives access to the text of numbers. @throws TypeError if it would round them */
export function requireExactNumbers(): void {
  if ('rawJSON' in JSON) return;
  throw new TypeError(
    'this runtime is too old: it has no JSON.rawJSON and would round numbers. Use Node.js 22, Chrome 114, Firefox 135, Safari 18.4 or newer.',
  );
}

/** Parses a JSON text. Numbers without a kind become JavaScript numbers. @throws SyntaxError */
export const parse = (text: string, kinds: Kinds): unknown =>
  decoded(
    exact.parse(text, (_, value, { source }) =>
      typeof value === 'number' ? new NumberText(source ?? '') : value,
    ),
    kinds,
  );

/** Replaces numbers in a parsed text. In place, because copies of records cost more than parsing them. */
function decoded(value: unknown, given: Kind): unknown {
  const kind = typeof given === 'function' && isObject(value) ? given(value) : given;
  if (value instanceof NumberText) {
    if (kind === 'int64') return BigInt(value.text);
    return kind === 'decimal' ? value.text : Number(value.text);
  }
  if (Array.isArray(value)) for (const [index, each] of value.entries()) value[index] = decoded(each, kind);
  else if (isObject(value)) {
    for (const [name, each] of Object.entries(value))
      if (typeof each === 'object') value[name] = decoded(each, kindOf(name, kind));
    if (typeof kind === 'object') makeSerializable(value, kind);
  }
  return value;
}

/**
 * Lets `JSON.stringify` write an object with all digits, as the instance sent it: by itself it throws a TypeError for a
 * bigint, and would write a decimal as a string. Not enumerable, so that copies and comparisons see only the members.
 */
function makeSerializable(object: Record<string, unknown>, kinds: Kinds): void {
  Object.defineProperty(object, 'toJSON', {
    configurable: true,
    writable: true,
    value(this: Readonly<Record<string, unknown>>) {
      return Object.fromEntries(
        Object.entries(this).map(([name, value]) => [
          name,
          // Objects have a toJSON of their own.
          typeof value === 'object' ? value : encoded(value, kindOf(name, kinds), name),
        ]),
      );
    },
  });
}

/** Writes a value as JSON. @throws TypeError for a number that has lost digits, or a decimal that is none */
export const stringify = (value: unknown, kinds: Kinds): string => JSON.stringify(encoded(value, kinds, ''));

function encoded(value: unknown, kind: Kind, name: string): unknown {
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
  if (Array.isArray(value)) return value.map((each) => encoded(each, kind, name));
  if (!isObject(value)) return value;
  const members = Object.entries(value);
  return Object.fromEntries(members.map(([key, each]) => [key, encoded(each, kindOf(key, kind), key)]));
}

/** The kind of a member. */
const kindOf = (name: string, kind: Kind): Kind =>
  typeof kind === 'object' && Object.hasOwn(kind, name) ? kind[name] : undefined;

/** Whether it is an object as JSON has them, not a Date or the like. */
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
