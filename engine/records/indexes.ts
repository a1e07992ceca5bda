import type { ResourceDefinition, Unique } from '../definition/index.ts';
import type { Field } from '../fields/index.ts';
import { queryIndexes } from '../query/index.ts';
import { identifier, indexKey, lookupKey, quote } from '../sql/index.ts';
import { allPresentSql, distinctionOf, joinedNames } from './uniques.ts';

/** An index of a resource: SQL keys in their order. */
export interface ResourceIndex {
  readonly name: string;
  /** The access method; absent: a B-tree. */
  readonly method?: 'gin';
  readonly keys: readonly string[];
  /** The condition of the records that it has; no two of them may have the same keys. Absent: it has all records. */
  readonly uniqueWhere?: string;
}

/** The keys of an index that begins with the organization and ends with the id. */
const columns = (keys: readonly string[]) => [...new Set(['"organization_id"', ...keys, '"id"'])];

/** Whether an index, or the primary key, holds records with the same values of some fields in the order of another. */
export function isIndexed(definition: ResourceDefinition, equal: readonly Field[], sort: Field): boolean {
  const wanted = columns([...equal.map(lookupKey), indexKey(sort)]);
  const all = indexes(definition).filter(({ uniqueWhere }) => uniqueWhere === undefined);
  return [columns([]), ...all.map(({ keys }) => keys)].some((keys) =>
    wanted.every((each, position) => keys[position] === each),
  );
}

/** What the query parts need, each reference and each lookup. */
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

/** The index that keeps fields unique within each organization. */
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

/** A key of an index: an expression needs brackets. */
const asKey = (key: string): string => (key.startsWith('case ') ? `(${key})` : key);

/** The name of the index that keeps fields unique. */
export const uniqueIndexName = (resource: string, unique: Unique): string =>
  identifier(`${resource}_${joinedNames(unique)}_unique`);
