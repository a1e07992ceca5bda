import type { FieldIssue } from '../errors.ts';
import type { Field } from '../fields/index.ts';
import { suggestion } from '../yaml/index.ts';
import type { Query, QueryPart } from './part.ts';

/** Maximum number of characters of an unknown name that a response repeats. */
const maxEcho = 40;

/**
 * Parses a parameter that contains comma-separated field names. Repeated parameters are combined.
 * @param fields the available fields
 * @returns the named fields in the order of `fields`
 */
function parseNames(
  parameter: string,
  input: Query[string],
  fields: readonly Field[],
  issues: FieldIssue[],
): readonly Field[] {
  const texts = [input ?? []].flat().flatMap((text) => text.split(','));
  const names = new Set(texts.map((name) => name.trim()).filter((name) => name !== ''));
  const matches = fields.filter(({ name }) => names.has(name));
  if (matches.length === names.size) return matches;
  const unknown = [...names].find((name) => !fields.some((field) => field.name === name)) ?? '';
  const echo = JSON.stringify(unknown.slice(0, maxEcho));
  issues.push({
    field: parameter,
    message: `Unknown field ${echo} in "${parameter}"${hint(unknown, fields)}`,
  });
  return matches;
}

/**
 * Returns a suggestion, or a list of all fields if none has a similar name. Long names are not compared,
 * because the comparison would take too long.
 */
function hint(unknown: string, fields: readonly Field[]): string {
  const names = fields.map(({ name }) => name);
  const similar = unknown.length > maxEcho ? '' : suggestion(unknown, names);
  return similar || `. Available fields: ${names.join(', ')}`;
}

/** Returns the OpenAPI description of a parameter that contains field names. */
const describeNames = (name: string, description: string, fields: readonly Field[]) => ({
  name,
  in: 'query',
  description,
  style: 'form',
  explode: false,
  schema: { type: 'array', items: { type: 'string', enum: fields.map((field) => field.name) } },
});

/** `?expand=`: adds the referenced records. */
export const expansion: QueryPart<readonly Field[], readonly Field[]> = {
  declare: ({ fields }) => [...fields.values()].filter(({ type }) => type.refers === true),
  ofRecord: true,
  reserved: ['expand'],
  parameters: (references) => (references.length > 0 ? ['expand'] : []),
  parse: (references, query, issues) =>
    references.length === 0 || query.expand === undefined
      ? []
      : parseNames('expand', query.expand, references, issues),
  shape: (references) => references.map(({ name }) => name).join(),
  clauses: () => ({}),
  describe: (references) =>
    references.length === 0
      ? []
      : [
          describeNames(
            'expand',
            'Comma-separated references whose records are returned under `expanded`. Requires the `read` grant on the referenced resources. The response does not have an `ETag`. An empty value is ignored.',
            references,
          ),
        ],
};

/** `?fields=`: limits records to the named fields and `id`, in the order of the definition. */
export const fieldsParameter: QueryPart<readonly Field[], readonly Field[] | undefined> = {
  declare: ({ fields }) => [...fields.values()],
  ofRecord: true,
  reserved: ['fields'],
  parameters: () => ['fields'],
  parse: (fields, query, issues) => {
    if (query.fields === undefined) return undefined;
    const namedFields = parseNames('fields', query.fields, fields, issues);
    if (namedFields.length === 0) return undefined;
    return fields.filter((field) => field.name === 'id' || namedFields.includes(field));
  },
  shape: (fields) => fields?.map(({ name }) => name).join() ?? '*',
  clauses: () => ({}),
  describe: (fields) => [
    describeNames(
      'fields',
      'Limits records to `id` and these comma-separated fields. The response does not have an `ETag`. An empty value returns all fields.',
      fields,
    ),
  ],
};
