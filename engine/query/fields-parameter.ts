import type { Field } from '../fields/index.ts';
import { describeNames, parseNames } from './names.ts';
import type { QueryPart } from './part.ts';

/** `?fields=`: records with some of their fields, in the order of the definition. The id is always there. */
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
      'Limits records to these fields, separated by commas, and `id`. The response then has no `ETag`. Empty: all fields.',
      declared,
    ),
  ],
};
