import type { Query } from '../query/index.ts';
import type { Body } from '../records/index.ts';

/** Parameters whose values name fields. */
const naming = ['sort', 'fields', 'expand', 'match'] as const;
const base = /^\w+/;

/**
 * Returns the fields named in a request's parameters and in its body, which can contain many records.
 * @param known names of the resource's fields
 */
export function fieldNamesInRequest(
  query: Query,
  body: Body | undefined,
  known: ReadonlySet<string>,
): Set<string> {
  const found = new Set<string>();
  const add = (name: string) => {
    if (known.has(name)) found.add(name);
  };
  for (const parameter in query) add(base.exec(parameter)?.[0] ?? '');
  for (const parameter of naming) {
    const given = query[parameter];
    if (given === undefined) continue;
    for (const text of [given].flat()) for (const name of text.split(',')) add(name.trim());
  }
  if (body === undefined) return found;
  for (const key in body) add(key);
  const { records, match } = body;
  if (Array.isArray(records)) {
    for (const record of records) for (const key in record as object) add(key);
  }
  if (Array.isArray(match)) for (const name of match) add(String(name));
  return found;
}
