// JSON whose numbers keep every digit: 64-bit integers are bigints, decimals are texts.

/** What the numbers of a JSON text are, by the names of their members; arrays have the kinds of their elements. */
export interface Kinds {
  readonly [member: string]: 'int64' | 'decimal' | Kinds;
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
  readonly rawJSON?: (text: string) => unknown;
  readonly parse: (
    text: string,
    revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ) => unknown;
};

/** Parses a JSON text. Numbers without a kind become JavaScript numbers. @throws SyntaxError */
export const parse = (text: string, kinds: Kinds): unknown =>
  decoded(
    exact.parse(text, (_, value, { source }) =>
      typeof value === 'number' ? new NumberText(source ?? '') : value,
    ),
    kinds,
  );

function decoded(value: unknown, kind: Kind): unknown {
  if (value instanceof NumberText) {
    if (kind === 'int64') return BigInt(value.text);
    return kind === 'decimal' ? value.text : Number(value.text);
  }
  if (Array.isArray(value)) return value.map((each) => decoded(each, kind));
  return isObject(value) ? mapped(value, kind, decoded) : value;
}

/** Writes a value as JSON. @throws TypeError for a number that has lost digits, or a decimal that is none */
export const stringify = (value: unknown, kinds: Kinds): string => JSON.stringify(encoded(value, kinds, ''));

function encoded(value: unknown, kind: Kind, name: string): unknown {
  if (typeof value === 'bigint') return raw(String(value));
  if (typeof value === 'string' && kind === 'decimal') {
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(value))
      throw new TypeError(`${name} must be a decimal number: ${value}`);
    return raw(value);
  }
  if (typeof value === 'number') {
    const isExact = kind === 'int64' ? Number.isSafeInteger(value) : Number.isFinite(value);
    if (!isExact) throw new TypeError(`${name} cannot be sent exactly: ${value}`);
  }
  if (Array.isArray(value)) return value.map((each) => encoded(each, kind, name));
  return isObject(value) ? mapped(value, kind, encoded) : value;
}

function mapped(
  value: object,
  kind: Kind,
  convert: (value: unknown, kind: Kind, name: string) => unknown,
): unknown {
  const kindOf = (name: string) =>
    typeof kind === 'object' && Object.hasOwn(kind, name) ? kind[name] : undefined;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, convert(each, kindOf(name), name)]),
  );
}

/** Whether it is an object as JSON has them, not a Date or the like. */
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;

function raw(text: string): unknown {
  if (exact.rawJSON === undefined) throw new TypeError('this runtime is too old: it has no JSON.rawJSON');
  return exact.rawJSON(text);
}
