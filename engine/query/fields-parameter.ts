import type { Field } from '../fields/index.ts';
import { describeNames, parseNames } from './names.ts';
import type { QueryPart } from './part.ts';

/** `?fields=`: limits records to these fields and `id`, in the order of the definition. */
export const fieldsParameter: QueryPart<readonly Field[], readonly Field[] | undefined> = {
  declare: ({ fields }) => [...fields.values()],
  ofRecord: true,
  reserved: ['fields'],
  parameters: () => ['fields'],
  parse: (declared, query, problems) => {
    if (query.fields === undefined) return undefined;
    const named = parseNames('fields', query.fields, declared, problems);
    if (named.length === 0) return undefined;
    return declared.filter((field) => field.name === 'id' || named.includes(field));
  },
  shape: (asked) => asked?.map(({ name }) => name).join() ?? '*',
  clauses: () => ({}),
  describe: (declared) => [
    describeNames(
      'fields',
      'Limits records to these fields, separated by commas, and `id`. The response does not have an `ETag`. An empty value returns all fields.',
      declared,
    ),
  ],
};
