import type { Query } from '../query/index.ts';
import type { Body } from '../records/index.ts';

/** Parameters whose values are field names. */
const fieldNameParameters = ['sort', 'fields', 'expand', 'match'] as const;
const baseName = /^\w+/;

/**
 * Returns the fields named in a request's parameters and body, which can contain many records.
 * @param fieldNames names of the resource's fields
 */
export function fieldNamesInRequest(
  query: Query,
  body: Body | undefined,
  fieldNames: ReadonlySet<string>,
): Set<string> {
  const result = new Set<string>();
  const add = (name: string) => {
    if (fieldNames.has(name)) result.add(name);
  };
  for (const parameter in query) add(baseName.exec(parameter)?.[0] ?? '');
  for (const parameter of fieldNameParameters) {
    const value = query[parameter];
    if (value === undefined) continue;
    for (const text of [value].flat()) for (const name of text.split(',')) add(name.trim());
  }
  if (body === undefined) return result;
  for (const key in body) add(key);
  const { records, match } = body;
  if (Array.isArray(records)) {
    for (const record of records) for (const key in record as object) add(key);
  }
  if (Array.isArray(match)) for (const name of match) add(String(name));
  return result;
}
