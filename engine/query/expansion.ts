import type { Field } from '../fields/index.ts';
import { describeNames, parseNames } from './names.ts';
import type { QueryPart } from './part.ts';

/** `?expand=`: adds the records that references point to. */
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
            'References, separated by commas, whose records are returned under `expanded`. Requires the `read` grant on the referenced resources. The response does not have an `ETag`. An empty value is ignored.',
            references,
          ),
        ],
};
