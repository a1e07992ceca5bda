import type { FieldIssue } from '../errors.ts';
import type { Field } from '../fields/index.ts';
import { hintFor } from '../yaml/index.ts';
import type { Query, QueryPart } from './part.ts';

/** Maximum number of characters of an unknown name that a response repeats. */
const maxEcho = 40;

/** Returns the names in a parameter that contains comma-separated names. Repeated parameters are combined. */
export const namesIn = (input: Query[string]): ReadonlySet<string> => {
  const texts = [input ?? []].flat().flatMap((text) => text.split(','));
  return new Set(texts.map((name) => name.trim()).filter((name) => name !== ''));
};

/**
 * Returns the issue for an unknown name in a parameter. It suggests a similar name, or lists all names if none is
 * similar. Long names are not compared, because the comparison would take too long.
 * @param noun what the names stand for
 */
export function unknownNameIssue(
  parameter: string,
  unknown: string,
  names: readonly string[],
  noun: 'field' | 'measure' = 'field',
): FieldIssue {
  const echo = JSON.stringify(unknown.slice(0, maxEcho));
  const similar = unknown.length > maxEcho ? undefined : hintFor(unknown, names);
  const hint = similar ?? `Available ${noun}s: ${names.join(', ')}`;
  return { field: parameter, message: `Unknown ${noun} ${echo} in "${parameter}". ${hint}`, hint };
}

/** Returns the OpenAPI description of a parameter that contains comma-separated names. */
export const describeNames = (parameter: string, description: string, names: readonly string[]) => ({
  name: parameter,
  in: 'query',
  description,
  style: 'form',
  explode: false,
  schema: { type: 'array', items: { type: 'string', enum: names } },
});

/** `?fields=`: limits records to the named fields and `id`, in the order of the definition. */
export const fieldsParameter: QueryPart<readonly Field[], readonly Field[] | undefined> = {
  declare: ({ fields }) => [...fields.values()],
  ofRecord: true,
  reserved: ['fields'],
  parameters: () => ['fields'],
  parse: (fields, query, issues) => {
    if (query.fields === undefined) return undefined;
    const names = namesIn(query.fields);
    const unknown = [...names].find((name) => !fields.some((field) => field.name === name));
    if (unknown !== undefined) {
      issues.push(
        unknownNameIssue(
          'fields',
          unknown,
          fields.map(({ name }) => name),
        ),
      );
    }
    if (!fields.some(({ name }) => names.has(name))) return undefined;
    return fields.filter(({ name }) => name === 'id' || names.has(name));
  },
  shape: (fields) => fields?.map(({ name }) => name).join() ?? '*',
  clauses: () => ({}),
  describe: (fields) => [
    describeNames(
      'fields',
      'Limits records to `id` and these comma-separated fields. The response does not have an `ETag`. An empty value returns all fields.',
      fields.map(({ name }) => name),
    ),
  ],
};
