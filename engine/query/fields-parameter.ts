import type { Field } from '../fields/index.ts';
import { describeNames, parseNames } from './names.ts';
import type { QueryPart } from './part.ts';

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
      'Limits records to these fields, separated by commas, and `id`. The response does not have an `ETag`. An empty value returns all fields.',
      fields,
    ),
  ],
};
