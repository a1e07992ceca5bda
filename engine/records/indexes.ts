import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Field } from '../fields/index.ts';
import { queryIndexes } from '../query/index.ts';
import { identifier, indexKey, lookupKey, quote } from '../sql/index.ts';
import { allPresentSql, distinctionOf, joinedNames } from './uniques.ts';

/** An index of a resource: SQL keys in their order. */
export interface ResourceIndex {
  readonly name: string;
  /** The access method; a B-tree if absent. */
  readonly method?: 'gin';
  readonly keys: readonly string[];
  /** The condition of a partial unique index; absent if the index contains all records. */
  readonly uniqueWhere?: string;
}

/** Returns the keys of an index that starts with the organization and ends with the ID. */
const columns = (keys: readonly string[]) => [...new Set(['"organization_id"', ...keys, '"id"'])];

/** Returns whether an index or the primary key contains records with equal values of some fields in the order of another. */
export function isIndexed(definition: ResourceDefinition, equal: readonly Field[], sort: Field): boolean {
  const wanted = columns([...equal.map(lookupKey), indexKey(sort)]);
  const all = indexes(definition).filter(({ uniqueWhere }) => uniqueWhere === undefined);
  return [columns([]), ...all.map(({ keys }) => keys)].some((keys) =>
    wanted.every((each, position) => keys[position] === each),
  );
}

/** Returns the indexes required by the query parts, and one for each reference and lookup. */
export function indexes(definition: ResourceDefinition): ResourceIndex[] {
  const { name, fields } = definition;
  const wanted = [
    ...queryIndexes(definition),
    ...fields
      .filter((field) => field.type.refers || field.lookup !== undefined)
      .map((field) => ({ field, keys: [lookupKey(field)] })),
  ];
  const found = new Map<string, ResourceIndex>();
  for (const index of wanted) {
    if ('method' in index) {
      const { method, keys } = index;
      const indexName = identifier(`${name}_${index.name}`);
      found.set(indexName, { name: indexName, method, keys: ['"organization_id"', ...keys] });
      continue;
    }
    const { field, keys } = index;
    const all = columns(keys);
    const isLookup = field.lookup !== undefined && keys[0] === lookupKey(field);
    const indexName = identifier(`${name}_${field.name}_${isLookup ? 'lookup' : 'index'}`);
    if (all.length > 2 && !found.has(indexName)) found.set(indexName, { name: indexName, keys: all });
  }
  return [...found.values(), ...definition.uniques.map((unique) => uniqueIndex(name, unique))];
}

/** Returns the index that keeps fields unique within an organization. */
function uniqueIndex(resource: string, unique: Unique): ResourceIndex {
  const values = unique.map((field) => quote(field.name));
  return {
    name: uniqueIndexName(resource, unique),
    keys: [
      '"organization_id"',
      ...unique.flatMap((field, index) => distinctionOf(field, values[index] ?? '').keys.map(asKey)),
    ],
    uniqueWhere: allPresentSql(unique, values),
  };
}

/** Returns an index key; expressions need parentheses. */
const asKey = (key: string): string => (key.startsWith('case ') ? `(${key})` : key);

/** Returns the name of the index that keeps fields unique. */
export const uniqueIndexName = (resource: string, unique: Unique): string =>
  identifier(`${resource}_${joinedNames(unique)}_unique`);
