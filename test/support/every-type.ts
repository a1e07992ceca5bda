import { fieldTypes } from '../../engine/fields/field-types.ts';
import type { FieldType } from '../../engine/fields/type.ts';
import type { Source } from '../../engine/yaml/load.ts';

/** Every registered field type with its name. */
export const types: readonly (readonly [name: string, type: FieldType])[] =
  Object.entries<FieldType>(fieldTypes);
/**
 * The stored types whose values are strings, numbers or boolean values. `test/features/references.test.ts` and
 * `test/features/structured-values.test.ts` cover the others.
 */
export const stored = types.filter(
  ([, type]) =>
    type.columns !== undefined &&
    type.element === undefined &&
    type.priced === undefined &&
    type.nested === undefined,
);
export const computed = types.filter(([, type]) => type.columns === undefined);

/** Returns whether valid values other than null are IDs, which depend on the stored records or members. */
export const hasIds = ({ refers, users }: FieldType): boolean => refers === true || users === true;

/** The first type that references records, and the first type whose text can be joined into other records. */
export const referring = stored.find(([, type]) => type.refers)?.[0] ?? '';
export const textual = stored.find(([, type]) => type.text !== undefined)?.[0] ?? '';

/** Returns the YAML of a field. `options` are additional keys, each preceded by a comma. */
export const line = (field: string, typeName: string, options = '') =>
  `  ${field}: { type: ${typeName}${options} }`;

/** Returns the keys that a type needs to be a valid nullable field of the `loose` resource. */
export const needs = (type: FieldType): string =>
  type.joins
    ? `, through: n_${referring}, show: [n_${textual}]`
    : `${type.element ? '' : ', nullable: true'}${type.refers ? ', to: loose' : ''}${type.priced ? ', currency: any' : ''}`;

const identity = [
  'fields:',
  line('id', 'int64', ', read_only: true, set: id'),
  line('organization_id', 'int64', ', read_only: true, set: organization'),
];

/**
 * Fields of every type: n_… is nullable, p_… is not nullable and defaults to the type's empty value, c_… is computed.
 */
export const looseFields = [
  ...identity,
  ...stored.map(([name, type]) => line(`n_${name}`, name, needs(type))),
  ...stored.filter(([, type]) => type.empty !== undefined).map(([name]) => line(`p_${name}`, name)),
  ...computed.map(([name, type]) => line(`c_${name}`, name, needs(type))),
].join('\n');

/** Fields of every type that can be required. */
const tightFields = [
  ...identity,
  ...stored.filter(([, type]) => !hasIds(type)).map(([name]) => line(`r_${name}`, name, ', required: true')),
].join('\n');

/** Two resources with all registered field types: `loose` and `tight`. */
export const everyType: readonly Source[] = [
  {
    file: 'loose.yaml',
    text: `${looseFields}\nfilters: [${stored.filter(([, type]) => type.equals).map(([name]) => `n_${name}`)}]`,
  },
  { file: 'tight.yaml', text: tightFields },
];

/** Additional values, keyed by JSON format or type, that would reveal errors in rounding, sign or length. */
const edges: Readonly<Record<string, readonly string[]>> = {
  int64: ['9007199254740993', '-9007199254740993', '9223372036854775807', '-9223372036854775808'],
  number: ['12345678901234.56', '-0.000000000000000000001', '123456789012345678901234567890.123456789'],
  'date-time': [
    '"0001-01-01T00:00:00+12:00"',
    '"9999-12-31T23:59:59.999999-12:00"',
    '"2026-03-01T09:30:00-00:00"',
    '"2026-03-01T09:30:00.000001+23:59"',
    '"2026-03-01T23:59:59Z"',
    '"2026-03-01T00:00:00-23:59"',
  ],
  string: [JSON.stringify('x'.repeat(5000)), '"\\u2028 \\\\ \\" /"', '"null"'],
};

/**
 * Returns the JSON texts of values that a type must accept. For references and users, this is only null, because other
 * IDs depend on the stored records and members.
 */
export function valuesOf(type: FieldType): string[] {
  const { json, examples } = type;
  const more = hasIds(type) ? [] : (edges[String(json.format ?? json.type)] ?? []);
  return [...new Set([...examples.map((example) => JSON.stringify(example)), ...more])];
}

/** Strings just outside the range that a format allows, keyed by JSON format. */
export const beyond: Readonly<Record<string, readonly string[]>> = {
  'date-time': [
    '2026-03-01T24:00:00Z',
    '2026-03-01T23:60:00Z',
    '2026-03-01T23:59:60Z',
    '2026-03-01T23:59:59+24:00',
    '2026-03-01T23:59:59-23:60',
    '2026-03-01T23:59:59',
    '2026-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-03-00T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '0000-12-31T23:59:59Z',
    '10000-01-01T00:00:00Z',
  ],
  date: [
    '2026-02-29',
    '2026-04-31',
    '2026-03-00',
    '2026-03-32',
    '2026-00-01',
    '2026-13-01',
    '0000-12-31',
    '10000-01-01',
    '2026-3-1',
  ],
};

/** JSON text of one value of each kind. */
export const kinds: Readonly<Record<string, string>> = {
  string: '"some text"',
  number: '7',
  boolean: 'true',
  object: '{}',
  array: '[]',
};

/**
 * Returns the JSON texts of values of all other kinds, and of numbers and strings outside the type's range.
 */
export function wrongValues({ json }: FieldType): string[] {
  const kind = json.type === 'integer' ? 'number' : String(json.type);
  const wrong = Object.entries(kinds)
    .filter(([other]) => other !== kind)
    .map(([, text]) => text);
  if (kind === 'number') wrong.push('1e400', '"7"', '[7]');
  if (json.type === 'integer') wrong.push('1.5', '9223372036854775808', '-9223372036854775809');
  if (kind === 'string') wrong.push('["some text"]');
  if (kind === 'string' && json.format !== undefined) {
    wrong.push(
      '"some text"',
      '""',
      ...(beyond[String(json.format)] ?? []).map((text) => JSON.stringify(text)),
    );
  }
  return wrong;
}
