import { type Field, lookupOf } from '../../engine/fields/index.ts';
import type { Answer, Instance } from './instance.ts';

/** A JSON value in which each number is represented by its text. */
export type Exact =
  | null
  | boolean
  | string
  | { readonly number: string }
  | readonly Exact[]
  | { readonly [key: string]: Exact };

/** A record's fields. */
export type ExactRecord = Readonly<Record<string, Exact>>;

type Reviver = (this: unknown, key: string, value: unknown) => unknown;

/**
 * Parses JSON without rounding: a number becomes `{ number: "its text" }`. Independent of the engine's own parser.
 */
export function exact(text: string): Exact {
  const reviver = (_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' ? { number: context?.source ?? '' } : value;
  return JSON.parse(text, reviver as Reviver) as Exact;
}

/** Parses a record's JSON without rounding. */
export const exactRecord = (text: string): ExactRecord => exact(text) as ExactRecord;

/**
 * Returns the JSON text of an object, given the JSON texts of its values, which need not be representable in
 * JavaScript.
 */
export const objectText = (parts: Iterable<readonly [key: string, json: string]>): string =>
  `{${[...parts].map(([key, json]) => `${JSON.stringify(key)}:${json}`).join(',')}}`;

/** Returns an ID's digits as text. */
export function numberText(value: Exact | undefined): string {
  return typeof value === 'object' && value !== null && 'number' in value ? String(value.number) : '';
}

const jsonNumber = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** Splits a JSON number into an exact mantissa and power of ten. */
function parts(source: string): { mantissa: bigint; exponent: number } {
  const match = jsonNumber.exec(source);
  if (match === null) throw new Error(`${source} is not a JSON number`);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  return { mantissa: BigInt(`${sign}${whole}${fraction}`), exponent: Number(exponent) - fraction.length };
}

/** Compares JSON numbers with exact arithmetic. */
export function compareNumbers(a: string, b: string): number {
  const [left, right] = [parts(a), parts(b)];
  const scale = Math.min(left.exponent, right.exponent);
  const grow = ({ mantissa, exponent }: typeof left) => mantissa * 10n ** BigInt(exponent - scale);
  return sign(grow(left) - grow(right));
}

const sign = (difference: bigint | number): number => (difference < 0 ? -1 : difference > 0 ? 1 : 0);

/** Compares strings by code point, as PostgreSQL's "C" collation does for UTF-8. */
const compareText = (a: string, b: string): number =>
  sign(Buffer.compare(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8')));

const rfc3339 = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)$/;

/** Converts an RFC 3339 timestamp in the service's format to microseconds since 1970. */
export function instant(text: string): bigint {
  const match = rfc3339.exec(text);
  if (match === null) throw new Error(`${text} is not a timestamp`);
  const [, day, time, fraction = '', offset = 'Z'] = match;
  const local = BigInt(Date.parse(`${day}T${time}Z`)) * 1000n + BigInt(fraction.padEnd(6, '0'));
  if (offset === 'Z') return local;
  const [hours = '0', minutes = '0'] = offset.slice(1).split(':');
  const shift = BigInt(Number(hours) * 60 + Number(minutes)) * 60_000_000n;
  return offset.startsWith('-') ? local + shift : local - shift;
}

/** Compares two values of a field according to its JSON schema. Null sorts last. */
export function compareValues(schema: Readonly<Record<string, unknown>>, a: Exact, b: Exact): number {
  if (a === null || b === null) return sign(Number(a === null) - Number(b === null));
  if (typeof a === 'boolean') return sign(Number(a) - Number(b));
  if (typeof a !== 'string') return compareNumbers(numberText(a), numberText(b));
  const text = b as string;
  return schema.format === 'date-time' ? sign(instant(a) - instant(text)) : compareText(a, text);
}

/** Returns the records on one page. */
export const dataOf = (answer: Answer): readonly ExactRecord[] =>
  exactRecord(answer.text).data as readonly ExactRecord[];

/**
 * Reads a list page by page, as a client does, until a page has fewer than 20 records.
 * @param query without `page`
 */
export async function walk(
  { call }: Pick<Instance, 'call'>,
  path: string,
  query: string,
  key: string,
): Promise<readonly (readonly ExactRecord[])[]> {
  const pages: (readonly ExactRecord[])[] = [];
  for (let page = 1; ; page++) {
    const answer = await call(`GET ${path}?${query}${query === '' ? '' : '&'}page=${page}`, { key });
    if (answer.status !== 200) throw new Error(`page ${page} of ${path}?${query}: ${answer.text}`);
    const data = dataOf(answer);
    pages.push(data);
    if (data.length < 20) return pages;
  }
}

/** Returns, for each resource, a hash of an organization's rows, read directly from the tables. */
export async function rowHashes(
  { database, resources }: Pick<Instance, 'database' | 'resources'>,
  organization: string,
): Promise<Readonly<Record<string, string>>> {
  const hashes: Record<string, string> = {};
  for (const { name } of resources) {
    const text = `select count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by id)), '') from "${name}" t where organization_id = $1::bigint`;
    const rows = await database.run({ name: `hash ${name}`, text, values: [organization] });
    hashes[name] = String(rows[0]?.[0] ?? '');
  }
  return hashes;
}

/** Returns whether a filter for a value finds a stored value. */
export function matches({ type, comparison }: Field, stored: Exact, value: Exact): boolean {
  if (stored === null) return false;
  if (comparison === undefined) return compareValues(type.json, stored, value) === 0;
  const { keyOf } = lookupOf(comparison);
  const key = keyOf(String(stored));
  return key !== '' && key === keyOf(String(value));
}
