import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Distinction, Field } from '../fields/index.ts';
import { queryIndexes } from '../query/index.ts';
import { column, type IndexShape, identifier, indexKey, lookupKey, quote } from '../sql/index.ts';
import type { Body } from './body.ts';
import type { ItemTable } from './items.ts';

/** Returns the names of fields that are unique together. */
export const namesOf = (unique: Unique): string[] => unique.map(({ name }) => name);

/** Joins the field names for use in an identifier. Field names cannot contain "+". */
const joinedNames = (unique: Unique): string => namesOf(unique).join('+');

/**
 * Returns how a unique index distinguishes a field's values.
 * @param value SQL expression for the value
 */
export const distinctionOf = ({ name, type }: Field, value: string): Distinction => {
  if (type.distinct === undefined) throw new Error(`${name} cannot be unique`);
  return type.distinct(value);
};

/** Returns an SQL condition that is true if all values of the unique fields are present. */
export const allPresentSql = (unique: Unique, values: readonly string[]): string =>
  unique.map((field, index) => distinctionOf(field, values[index] ?? '').presence).join(' and ');

/**
 * Returns an SQL condition that is true if a record has these values in its unique fields and none of the
 * values is absent.
 */
export const sameKeySql = (unique: Unique, values: readonly string[]): string =>
  unique
    .flatMap((field, index) => {
      const stored = distinctionOf(field, column(field));
      const expected = distinctionOf(field, values[index] ?? '');
      return [...stored.keys.map((key, part) => `${key} = ${expected.keys[part]}`), stored.presence];
    })
    .join(' and ');

/** Returns SQL expressions for the values of an item's unique fields. */
export const itemValues = (table: ItemTable, unique: Unique): string[] =>
  unique.map((field) => table.assignments(field)[0]?.value ?? 'null');

/** Returns whether a body contains no value for a field. */
export const isBlankValue = (body: Body, { name }: Field): boolean =>
  body[name] === undefined || body[name] === null || body[name] === '';

/** Serializes a body's values for unique fields. Equal values produce equal text. */
export const uniqueKeyText = (unique: Unique, body: Body): string =>
  JSON.stringify(unique.map(({ name, type }) => type.write?.(body[name])));

/** An index on a resource's table. */
interface ResourceIndex extends IndexShape {
  readonly name: string;
}

/** Returns an index's keys, preceded by the organization and followed by the ID. */
const indexColumns = (keys: readonly string[]) => [...new Set(['"organization_id"', ...keys, '"id"'])];

/**
 * Returns whether an index or the primary key provides the order of `sort` among records with equal values in
 * the `equal` fields.
 */
export function isIndexed(definition: ResourceDefinition, equal: readonly Field[], sort: Field): boolean {
  const requiredKeys = indexColumns([...equal.map(lookupKey), indexKey(sort)]);
  const fullIndexes = indexes(definition).filter(({ where }) => where === undefined);
  return [indexColumns([]), ...fullIndexes.map(({ keys }) => keys)].some((keys) =>
    requiredKeys.every((key, position) => keys[position] === key),
  );
}

/** Returns a resource's indexes for its query parameters, references, lookups and unique fields. */
export function indexes(definition: ResourceDefinition): ResourceIndex[] {
  const { name, fields } = definition;
  const candidates = [
    ...queryIndexes(definition),
    ...fields
      .filter((field) => field.type.refers || field.lookup !== undefined)
      .map((field) => ({ field, keys: [lookupKey(field)] })),
  ];
  const byName = new Map<string, ResourceIndex>();
  for (const index of candidates) {
    if ('method' in index) {
      const { method, keys } = index;
      const indexName = identifier(`${name}_${index.name}`);
      byName.set(indexName, { name: indexName, method, keys: ['"organization_id"', ...keys] });
      continue;
    }
    const { field, keys } = index;
    const indexKeys = indexColumns(keys);
    const isLookup = field.lookup !== undefined && keys[0] === lookupKey(field);
    const indexName = identifier(`${name}_${field.name}_${isLookup ? 'lookup' : 'index'}`);
    if (indexKeys.length > 2 && !byName.has(indexName))
      byName.set(indexName, { name: indexName, keys: indexKeys });
  }
  return [...byName.values(), ...definition.uniques.map((unique) => uniqueIndex(name, unique))];
}

/** Returns the index that enforces unique fields within an organization. */
function uniqueIndex(resource: string, unique: Unique): ResourceIndex {
  const values = unique.map((field) => quote(field.name));
  return {
    name: uniqueIndexName(resource, unique),
    keys: [
      '"organization_id"',
      ...unique.flatMap((field, index) => distinctionOf(field, values[index] ?? '').keys.map(asKey)),
    ],
    kind: 'unique',
    where: allPresentSql(unique, values),
  };
}

/** Returns the key as written in CREATE INDEX, where expressions need parentheses. */
const asKey = (key: string): string => (key.startsWith('case ') ? `(${key})` : key);

/** Returns the name of the index that enforces unique fields. */
export const uniqueIndexName = (resource: string, unique: Unique): string =>
  identifier(`${resource}_${joinedNames(unique)}_unique`);
