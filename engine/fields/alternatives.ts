import { type Encoder, textCell, valueCells, verbatim } from './encode.ts';
import { integerText, jsonNumber } from './exact-json.ts';
import type { Field } from './field.ts';
import { referenceType } from './links.ts';
import { bigintType } from './numbers.ts';
import type { FieldType } from './type.ts';

/** A resource to which a field can refer, and the suffix of the column that contains the record's ID. */
export interface Alternative {
  readonly resource: string;
  readonly suffix: string;
}

/** A reference to a record, as sent and returned by the API. */
interface RecordReference {
  readonly resource: string;
  readonly id: unknown;
}

/** Returns whether a JSON value names a record. @param resources the accepted resources; any if undefined */
export function isRecordReference(value: unknown, resources?: readonly string[]): value is RecordReference {
  if (typeof value !== 'object' || value === null) return false;
  const { resource, id } = value as Partial<RecordReference>;
  return (
    typeof resource === 'string' && resources?.includes(resource) !== false && integerText(id) !== undefined
  );
}

/** Splits "leads/7", as written in query parameters and CSV files. Returns undefined if the text has another form. */
export function splitReference(text: string): { readonly resource: string; readonly id: string } | undefined {
  const [, resource, id] = /^([a-z0-9_]+)\/(-?\d+)$/.exec(text) ?? [];
  return resource === undefined || id === undefined || bigintType.parse?.(id) === undefined
    ? undefined
    : { resource, id };
}

/** Converts "leads/7" to a JSON value. Returns other text unchanged, so that validation rejects it. */
function parseReference(text: string): unknown {
  const reference = splitReference(text.trim());
  return reference === undefined ? text : { resource: reference.resource, id: jsonNumber(reference.id) };
}

/** Returns "leads/7" for a value from a response. */
export const formatReference = ({ resource, id }: RecordReference): string => `${resource}/${String(id)}`;

/** Encodes the JSON of a reference as "leads/7". */
const encodeCell: Encoder = (source, start, end, target, offset) => {
  const json = Buffer.from(source.buffer, source.byteOffset + start, end - start).toString();
  const text = Buffer.from(json.replace(/^\{"resource":"(\w+)","id":(-?\d+)\}$/, '$1/$2'));
  return textCell(text, 0, text.length, target, offset);
};

/** Lists names, with a conjunction before the last one. */
const listNames = (names: readonly string[], conjunction: string): string =>
  `${names.slice(0, -1).join(', ')} ${conjunction} ${names.at(-1)}`;

/**
 * Returns the type of a reference to a record of one of several resources, or null. Each resource has a column, of which
 * at most one contains an ID.
 */
export function alternativesType(alternatives: readonly Alternative[]): FieldType {
  const resources = alternatives.map(({ resource }) => resource);
  const [example = ''] = resources;
  const expected = `an object such as {"resource":"${example}","id":7} whose resource is ${listNames(resources, 'or')}`;
  /** Returns the value of the first column that is not null. */
  const firstValue = (columns: readonly string[], expression: (resource: string, column: string) => string) =>
    `case ${columns.map((column, index) => `when ${column} is not null then ${expression(resources[index] ?? '', column)}`).join(' ')} end`;
  /** Returns an SQL expression for the value as "leads/7". @param column the quoted name of the field */
  const textOf = (column: string) =>
    firstValue(
      alternatives.map(({ suffix }) => column.replace(/"$/, `${suffix}"`)),
      (resource, id) => `'${resource}/' || ${id}`,
    );
  return {
    expected: `${expected}, or null`,
    expectedIfRequired: expected,
    expects: { type: 'recordOf', resources },
    json: {
      type: 'object',
      required: ['resource', 'id'],
      properties: {
        resource: { type: 'string', enum: resources },
        id: { type: 'integer', format: 'int64' },
      },
    },
    body: () => ({ recordOf: resources }),
    parameter: {
      expected: `a resource and an ID, such as ${example}/7, where the resource is ${listNames(resources, 'or')}`,
      expects: { type: 'recordOf', resources },
      json: { type: 'string', pattern: `^(${resources.join('|')})/-?[0-9]+$`, examples: [`${example}/7`] },
    },
    columns: () =>
      alternatives.map(({ suffix }, index) => ({
        suffix,
        type: 'bigint',
        // At most one of the columns has a value.
        sample: index === 0 ? 'n' : 'null',
      })),
    write: (value) =>
      isRecordReference(value, resources)
        ? resources.map((resource) => (resource === value.resource ? (integerText(value.id) ?? null) : null))
        : [],
    read: (columns) =>
      firstValue(
        columns,
        (resource, column) => `('{"resource":"${resource}","id":' || ${column} || '}')::json`,
      ),
    encode: verbatim,
    csv: valueCells(encodeCell, parseReference),
    form: {
      control: 'line',
      notation: { kind: 'recordOf', resource: example },
      // Accepts the format of the list, for example "Acme (orders/7)".
      parse: (text) =>
        text.trim() === '' ? undefined : parseReference(/\((\w+\/-?\d+)\)\s*$/.exec(text)?.[1] ?? text),
    },
    equals: (column, placeholder) => `${textOf(column)} = ${placeholder}::text`,
    among: (column, placeholder) => `${textOf(column)} = any(${placeholder}::text[])`,
    parse: (text) => {
      const reference = splitReference(text);
      return reference !== undefined && resources.includes(reference.resource) ? text : undefined;
    },
    groupKey: (column) => column,
    refers: true,
    examples: [null],
  };
}

/**
 * Returns the field as a reference to one of several resources.
 * @param field a reference without `to`
 */
export const withAlternatives = (field: Field, alternatives: readonly Alternative[]): Field => ({
  ...field,
  type: alternativesType(alternatives),
  alternatives: alternatives.map(({ resource, suffix }) => {
    const { renamedFrom: _, alias: _alias, ...rest } = field;
    return {
      ...rest,
      name: `${field.name}${suffix}`,
      type: referenceType,
      to: resource,
      nullable: true,
      required: false,
      alternativeOf: field.name,
    };
  }),
});

/**
 * Returns the references to single resources that a field consists of: the field itself, or one for each resource. Empty if
 * the field does not refer to a resource.
 */
export const linksOf = (field: Field): readonly Field[] =>
  field.alternatives ?? (field.to === undefined ? [] : [field]);

/** Returns a name for a field's type in error messages. */
export const typeLabel = ({
  typeName,
  type,
  alternatives,
}: Pick<Field, 'typeName' | 'type' | 'alternatives'>): string =>
  alternatives === undefined ? (type.label ?? typeName) : `multi-target ${typeName}`;

/** Returns the name by which callers know a reference. */
export const referenceName = ({ alternativeOf, name }: Field): string => alternativeOf ?? name;
