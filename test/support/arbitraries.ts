// Generators for property tests (fast-check). JSON is generated as text, so that it can contain numbers that
// JavaScript cannot represent.
import fc, { type Arbitrary } from 'fast-check';
import type { Resource } from '../../engine/compile/compile.ts';
import type { Field } from '../../engine/fields/field.ts';
import { valuesOf, wrongValues } from './every-type.ts';
import { objectText } from './reading.ts';

const powers = [0n, 1n, 10n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n];

/** Integers, mostly near the limits of a representation. */
export const edgyInteger: Arbitrary<bigint> = fc.oneof(
  fc.bigInt({ min: -1000n, max: 1000n }),
  fc
    .tuple(fc.constantFrom(...powers), fc.bigInt({ min: -3n, max: 3n }), fc.boolean())
    .map(([base, delta, negative]) => (negative ? -(base + delta) : base + delta)),
  fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }),
);

const digits = (max: number) =>
  fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: max }).map((list) => list.join(''));

/** Any JSON number as text: long, tiny or huge, with or without a fraction and an exponent. */
export const jsonNumber: Arbitrary<string> = fc.oneof(
  edgyInteger.map(String),
  // The database would keep the trailing zero, which other notations of the same number do not have.
  fc.constantFrom('10e-001', '-1697840e-001'),
  fc
    .double({ noDefaultInfinity: true, noNaN: true })
    .map((number) => (Object.is(number, -0) ? '-0' : String(number))),
  fc
    .tuple(
      fc.constantFrom('', '-'),
      edgyInteger.map((integer) => String(integer < 0n ? -integer : integer)),
      fc.option(digits(30), { nil: undefined }),
      fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'e-'), digits(3)), { nil: undefined }),
    )
    .map(
      ([sign, whole, fraction, exponent]) =>
        `${sign}${whole}${fraction === undefined ? '' : `.${fraction}`}${exponent?.join('') ?? ''}`,
    ),
);

/** JSON that no field accepts or that breaks careless parsers. */
export const oddJson: Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '"\\u0000"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '1e400',
    '-1e-400',
    '{"$ne":null}',
    '{"__proto__":{"polluted":1}}',
    '[[]]',
    `${'['.repeat(2000)}${']'.repeat(2000)}`,
    `${'{"a":'.repeat(2000)}9007199254740993${'}'.repeat(2000)}`,
    `"${'x'.repeat(20_000)}"`,
    '9'.repeat(400),
    '""',
    '"null"',
  ),
  fc.json({ maxDepth: 3 }),
  jsonNumber,
);

/** Maximum number of values for which {@link assertUntil} checks a property. */
const maxRuns = 1000;

/**
 * Checks a property in two halves of `runs` values, and then with more values until enough of them had each outcome.
 * @param isEnough whether each outcome occurred often enough
 */
export async function assertUntil<Values>(
  property: fc.IAsyncProperty<Values>,
  runs: number,
  isEnough: () => boolean,
): Promise<void> {
  for (let count = 0; count < runs || (count < maxRuns && !isEnough()); count += runs / 2)
    await fc.assert(property, { numRuns: runs / 2 });
}

const pad = (number: number, length = 2) => String(number).padStart(length, '0');
const day = fc
  .tuple(fc.integer({ min: 1, max: 9999 }), fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 28 }))
  .map(([year, month, date]) => `${pad(year, 4)}-${pad(month)}-${pad(date)}`);
const time = fc
  .tuple(fc.nat(23), fc.nat(59), fc.nat(59), fc.option(digits(9), { nil: undefined }))
  .map(
    ([hour, minute, second, fraction]) =>
      `${pad(hour)}:${pad(minute)}:${pad(second)}${fraction === undefined ? '' : `.${fraction}`}`,
  );
const offset = fc.oneof(
  fc.constantFrom('Z', 'z', '+00:00', '-00:00', '+23:59', '-23:59'),
  fc
    .tuple(fc.constantFrom('+', '-'), fc.nat(23), fc.nat(59))
    .map(([sign, hour, minute]) => `${sign}${pad(hour)}:${pad(minute)}`),
);
const wellFormed = fc
  .string({ unit: 'grapheme', maxLength: 40 })
  .filter((text) => text.isWellFormed() && !text.includes('\0'));

/**
 * JSON values as text, by JSON format, or by JSON type if the type does not have a format. Other types are
 * represented by their examples.
 */
const byFormat: Readonly<Record<string, Arbitrary<string>>> = {
  int32: fc.integer().map(String),
  int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  number: jsonNumber,
  boolean: fc.boolean().map(String),
  date: day.map((text) => JSON.stringify(text)),
  'date-time': fc
    .tuple(day, fc.constantFrom('T', 't'), time, offset)
    .map((parts) => JSON.stringify(parts.join(''))),
  string: wellFormed.map((text) => JSON.stringify(text)),
};

/** IDs that references can use, by target resource. */
export type KnownIds = Readonly<Record<string, readonly string[]>>;

/** Returns the JSON text of a value that the field most likely accepts. */
function rightValue({ type, to }: Field, ids: KnownIds): Arbitrary<string> {
  if (to !== undefined) return fc.constantFrom('null', ...(ids[to] ?? []));
  const generated = byFormat[String(type.json.format ?? type.json.type)];
  const values = fc.constantFrom('null', ...valuesOf(type));
  return generated === undefined ? values : fc.oneof(values, generated, generated);
}

/** Returns the JSON text of a value that the field rejects. */
const wrongValue = ({ type }: Field): Arbitrary<string> =>
  fc.oneof(fc.constantFrom(...wrongValues(type)), oddJson);

/**
 * Returns POST and PUT bodies: some writable fields are valid, and others are absent or null. Occasionally, a
 * value is invalid, a key is read-only or unknown, or a key is repeated.
 * @param wrong additional invalid entries, for example references to another organization's records
 */
export function bodyText(
  { definition: { fields } }: Resource,
  ids: KnownIds,
  wrong: readonly (readonly [string, string])[] = [],
): Arbitrary<string> {
  const writable = fields.filter((field) => !field.readOnly);
  const right = fc.record(Object.fromEntries(writable.map((field) => [field.name, rightValue(field, ids)])), {
    requiredKeys: writable.filter((field) => field.required).map((field) => field.name),
  });
  const names = fields.filter((field) => field.readOnly).map((field) => field.name);
  const ignored = fc.tuple(
    fc.constantFrom('', '__proto__', 'constructor', 'toString', 'organization', 'Name', ...names),
    oddJson,
  );
  const broken = fc.oneof(
    ...writable.map((field) => fc.tuple(fc.constant(field.name), wrongValue(field))),
    ...wrong.map((entry) => fc.constant([...entry] as [string, string])),
  );
  const few = <T>(arbitrary: Arbitrary<T>) =>
    fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      { weight: 2, arbitrary: fc.array(arbitrary, { minLength: 1, maxLength: 2 }) },
    );
  return fc
    .tuple(right, few(ignored), few(broken))
    .map(([values, some, others]) => objectText([...Object.entries(values), ...some, ...others]));
}
