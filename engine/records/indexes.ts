import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, head, lookups } from '../fields/index.ts';
import { queryIndexes } from '../query/index.ts';
import { identifier, indexKey, quote } from '../sql/index.ts';

/** An index of a resource: SQL keys in their order. */
export interface ResourceIndex {
  readonly name: string;
  readonly keys: readonly string[];
}

/** The keys of an index that begins with the organization and ends with the id. */
const columns = (keys: readonly string[]) => [...new Set(['"organization_id"', ...keys, '"id"'])];

/** Whether an index, or the primary key, holds records with the same values of some fields in the order of another. */
export function isIndexed(definition: ResourceDefinition, equal: readonly Field[], sort: Field): boolean {
  const wanted = columns([...equal, sort].map(indexKey));
  return [columns([]), ...indexes(definition).map(({ keys }) => keys)].some((keys) =>
    wanted.every((each, position) => keys[position] === each),
  );
}

/** What the query parts need, each reference and each lookup. */
export function indexes(definition: ResourceDefinition): ResourceIndex[] {
  const { name, fields } = definition;
  const references = fields.filter((field) => field.type.refers);
  const wanted = [
    ...queryIndexes(definition),
    ...references.map((field) => ({ field, keys: [indexKey(field)] })),
  ];
  const unique = new Map<string, ResourceIndex>();
  for (const { field, keys } of wanted) {
    const all = columns(keys);
    if (all.length > 2 && !unique.has(field.name)) {
      unique.set(field.name, { name: identifier(`${name}_${field.name}_index`), keys: all });
    }
  }
  const lookupIndexes = fields.flatMap((field) =>
    field.lookup === undefined
      ? []
      : [
          {
            name: identifier(`${name}_${field.name}_lookup`),
            keys: columns([head(lookups[field.lookup](quote(field.name)))]),
          },
        ],
  );
  return [...unique.values(), ...lookupIndexes];
}
