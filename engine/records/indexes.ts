import { violatedConstraint } from '../database/index.ts';
import type { ResourceDefinition, Unique } from '../definition/index.ts';
import {
  type Distinction,
  type Field,
  linksOf,
  lookupOf,
  phoneVariants,
  refersToMany,
} from '../fields/index.ts';
import { queryIndexes } from '../query/index.ts';
import {
  column,
  type IndexShape,
  identifier,
  indexKey,
  lookupKey,
  quote,
  trashedColumn,
} from '../sql/index.ts';
import type { Body } from './body.ts';
import type { ItemTable } from './items.ts';
import { scopeField } from './rows.ts';
import { sequenceFields } from './sequence-numbers.ts';

/** Returns the names of fields that are unique together. */
export const namesOf = (unique: Unique): string[] => unique.map(({ name }) => name);

/** Returns whether a caller can read the values of fields that are unique together. */
export const showsValues = ({ fields }: Pick<ResourceDefinition, 'fields'>, unique: Unique): boolean =>
  unique.every(({ name }) => fields.some((field) => field.name === name));

/** Joins the field names for use in an identifier. Field names cannot contain "+". */
const joinedNames = (unique: Unique): string => namesOf(unique).join('+');

/**
 * Returns how a unique index distinguishes a field's values.
 * @param value SQL expression for the value
 */
export const distinctionOf = ({ name, type, comparison }: Field, value: string): Distinction => {
  if (type.distinct === undefined) throw new Error(`${name} cannot be unique`);
  return type.distinct(comparison === undefined ? value : lookupOf(comparison).key(value));
};

/** Returns an SQL expression that is equal for equal values of a unique field. */
export const comparableSql = ({ comparison }: Field, value: string): string =>
  comparison === undefined ? value : lookupOf(comparison).key(`(${value} collate "C")`);

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
      const value = values[index] ?? '';
      // The result of `lower` depends on the collation.
      const expected = distinctionOf(
        field,
        field.comparison === undefined ? value : `(${value} collate "C")`,
      );
      return [...stored.keys.map((key, part) => `${key} = ${expected.keys[part]}`), stored.presence];
    })
    .join(' and ');

/**
 * Returns an SQL condition that is true if an item identifies a record by its unique fields. Unlike {@link sameKeySql}, it
 * compares phone numbers in all notations, which the same index finds.
 */
export const matchedSql = (table: ItemTable, unique: Unique): string =>
  unique
    .map((field, index) => {
      const value = itemValues(table, unique)[index] ?? '';
      const notations = table.notations(field);
      if (notations === undefined) return sameKeySql([field], [value]);
      const stored = distinctionOf(field, column(field));
      const [prefix = '', ...others] = distinctionOf(field, `(${value} collate "C")`).keys;
      const [storedPrefix, ...storedOthers] = stored.keys;
      return [
        // Numbers with several notations are shorter than the prefix.
        `${storedPrefix} = any(coalesce(${notations}, array[${prefix}]))`,
        ...storedOthers.map((key, part) => `${key} = ${others[part]}`),
        stored.presence,
      ].join(' and ');
    })
    .join(' and ');

/** Returns whether an item can identify several records by its unique fields, in different notations of a phone number. */
export const matchesSeveral = (table: ItemTable, unique: Unique): boolean =>
  unique.some((field) => table.notations(field) !== undefined);

/** Returns SQL expressions for the values of an item's unique fields. */
export const itemValues = (table: ItemTable, unique: Unique): string[] =>
  unique.map((field) => table.assignments(field)[0]?.value ?? 'null');

/** Returns whether a body contains no value for a field. */
export const isBlankValue = (body: Body, { name }: Field): boolean =>
  body[name] === undefined || body[name] === null || body[name] === '';

/**
 * Serializes a body's values for unique fields. Equal values produce equal text.
 * @param phoneRegion the country of phone numbers without a country code, whose notations are equal
 */
export const uniqueKeyText = (unique: Unique, body: Body, phoneRegion: string | undefined): string =>
  JSON.stringify(
    unique.map(({ name, type, comparison }) => {
      const values = type.write?.(body[name]);
      return comparison === undefined
        ? values
        : values?.map((text) => {
            if (text === null) return text;
            const [first = text] =
              comparison === 'digits' && phoneRegion !== undefined ? phoneVariants(text, phoneRegion) : [];
            return lookupOf(comparison).keyOf(first);
          });
    }),
  );

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

/** Returns a resource's indexes for its query parameters, scopes, references, lookups and unique fields. */
export function indexes(definition: ResourceDefinition): ResourceIndex[] {
  const { name, fields } = definition;
  const candidates = [
    ...queryIndexes(definition),
    // A list limited to such a scope is as short as a filtered one.
    ...definition.scopes.flatMap((scope) => {
      const field = scopeField(definition, scope);
      return field === undefined
        ? []
        : [{ field, keys: [lookupKey(field), indexKey(definition.sort.field)] }];
    }),
    ...fields
      .flatMap((field) => {
        if (field.type.refers === true) return refersToMany(field) ? [] : linksOf(field);
        return field.lookup === undefined ? [] : [field];
      })
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
    const isLookup = (field.comparison ?? field.lookup) !== undefined && keys[0] === lookupKey(field);
    const indexName = identifier(`${name}_${field.name}_${isLookup ? 'lookup' : 'index'}`);
    if (indexKeys.length > 2 && !byName.has(indexName))
      byName.set(indexName, { name: indexName, keys: indexKeys });
  }
  for (const { reference, sort } of definition.referrerOrders) {
    const keys = indexColumns([lookupKey(reference), indexKey(sort)]);
    const indexName = identifier(`${name}_${reference.name}_${sort.name}_index`);
    // The index of a filter for the reference can have the same order.
    const isCovered = [...byName.values()].some((index) =>
      keys.every((key, position) => index.keys[position] === key),
    );
    if (!isCovered) byName.set(indexName, { name: indexName, keys });
  }
  return [
    ...byName.values(),
    ...definition.uniques.map((unique) => uniqueIndex(definition, unique)),
    // Records in the trash keep their values.
    ...sequenceFields(definition).map((field) => uniqueIndex({ name }, [field])),
    ...(definition.trash === undefined ? [] : [trashIndex(name)]),
  ];
}

/** Returns the index that enforces unique fields within an organization. */
function uniqueIndex(
  { name: resource, trash }: Pick<ResourceDefinition, 'name' | 'trash'>,
  unique: Unique,
): ResourceIndex {
  const values = unique.map((field) => quote(field.name));
  return {
    name: uniqueIndexName(resource, unique),
    keys: ['"organization_id"', ...uniqueKeys(unique)],
    kind: 'unique',
    where: `${allPresentSql(unique, values)}${trash === undefined ? '' : ` and ${quote(trashedColumn)} is null`}`,
  };
}

/** Returns the keys of the index that enforces unique fields, without the organization. */
export const uniqueKeys = (unique: Unique): readonly string[] =>
  unique.flatMap((field) => distinctionOf(field, quote(field.name)).keys.map(asKey));

/** Returns the index that lists an organization's trash. */
const trashIndex = (resource: string): ResourceIndex => ({
  name: identifier(`${resource}_Trash`),
  keys: indexColumns([quote(trashedColumn)]),
  where: `${quote(trashedColumn)} is not null`,
});

/** Returns the key as written in CREATE INDEX, where expressions need parentheses. */
const asKey = (key: string): string => (key.startsWith('case ') ? `(${key})` : key);

/** Returns the name of the index that enforces unique fields. */
export const uniqueIndexName = (resource: string, unique: Unique): string =>
  identifier(`${resource}_${joinedNames(unique)}_unique`);

/** Returns the unique fields whose values another record of the resource has, or undefined for other failures. */
export function violatedUnique(
  { name, uniques }: Pick<ResourceDefinition, 'name' | 'uniques'>,
  cause: unknown,
): Unique | undefined {
  const constraint = violatedConstraint(cause);
  return uniques.find((unique) => uniqueIndexName(name, unique) === constraint);
}
