import type { ResourceDefinition } from '../definition/index.ts';
import type { Field } from '../fields/index.ts';
import { queryIndexes } from '../query/index.ts';
import { identifier, indexKey, lookupKey } from '../sql/index.ts';

/** An index of a resource: SQL keys in their order. */
export interface ResourceIndex {
  readonly name: string;
  /** The access method; absent: a B-tree. */
  readonly method?: 'gin';
  readonly keys: readonly string[];
}

/** The keys of an index that begins with the organization and ends with the id. */
const columns = (keys: readonly string[]) => [...new Set(['"organization_id"', ...keys, '"id"'])];

/** Whether an index, or the primary key, holds records with the same values of some fields in the order of another. */
export function isIndexed(definition: ResourceDefinition, equal: readonly Field[], sort: Field): boolean {
  const wanted = columns([...equal.map(lookupKey), indexKey(sort)]);
  return [columns([]), ...indexes(definition).map(({ keys }) => keys)].some((keys) =>
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
  return [...found.values()];
}
