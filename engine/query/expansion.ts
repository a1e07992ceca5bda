import type { Field } from '../fields/index.ts';
import { describeNames, parseNames } from './names.ts';
import type { QueryPart } from './part.ts';

/** `?expand=`: adds the records that references point to. */
export const expansion: QueryPart<readonly Field[], readonly Field[]> = {
  declare: ({ fields }) => [...fields.values()].filter(({ type }) => type.refers === true),
  ofRecord: true,
  reserved: ['expand'],
  parameters: (declared) => (declared.length > 0 ? ['expand'] : []),
  parse: (declared, query, problems) =>
    declared.length === 0 || query.expand === undefined
      ? []
      : parseNames('expand', query.expand, declared, problems),
  shape: (asked) => asked.map(({ name }) => name).join(),
  clauses: () => ({}),
  describe: (declared) =>
    declared.length === 0
      ? []
      : [
          describeNames(
            'expand',
            'References, separated by commas, whose records are returned under `expanded`. Requires the `read` grant on the referenced resources. The response does not have an `ETag`. An empty value is ignored.',
            declared,
          ),
        ],
};
