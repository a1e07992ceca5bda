import type { FieldIssue } from '../errors.ts';
import { type Field, typeLabel } from '../fields/index.ts';
import { column, indexKey } from '../sql/index.ts';
import { hintForInput, oneOfSchema, suggestion } from '../yaml/index.ts';
import { afterPosition, parseCursor, positionShape, type UnverifiedCursor } from './cursor.ts';
import { parameterIssue, parameterValue, type QueryPart } from './part.ts';

/** The default order of a resource's lists. */
interface Sort {
  readonly field: Field;
  readonly direction: 'asc' | 'desc';
  /** Fields that callers can sort by, keyed by field name. Empty if the order is fixed. */
  readonly choices: ReadonlyMap<string, Field>;
}

/** The requested order, and the position at which the page starts. */
interface Order {
  readonly field: Field;
  readonly direction: 'asc' | 'desc';
  /** The position in `?cursor=`. */
  readonly after?: UnverifiedCursor;
}

/** Value of the `sort` key in YAML. */
interface Yaml {
  readonly by: string;
  readonly direction?: 'asc' | 'desc';
  readonly selectable?: boolean;
}

/** `?sort=`, `?dir=` and `?cursor=`. Without `sort`, `dir` sets the direction of the declared order. */
export const sort: QueryPart<Sort, Order> = {
  yaml: {
    description:
      'Default order of lists. Records with equal values are ordered by ID, in the same direction.',
    type: 'object',
    'x-expected': 'a map such as { by: created_at, direction: desc }',
    examples: [{ by: 'created_at', direction: 'desc' }],
    required: ['by'],
    additionalProperties: false,
    properties: {
      by: { description: 'A field.', type: 'string' },
      direction: { description: 'Default: asc.', enum: ['asc', 'desc'] },
      selectable: {
        description: 'Whether callers can choose another order with ?sort= and ?dir=. Default: true.',
        type: 'boolean',
      },
    },
  },
  yamlOf: (fields) => ({
    properties: {
      by: oneOfSchema(fields.filter(({ type }) => type.order !== undefined).map(({ name }) => name)),
    },
  }),
  declare: ({ yaml, fields, report }) => {
    const { by: name = 'id', direction = 'asc', selectable = true } = (yaml ?? {}) as Partial<Yaml>;
    const field = fields.get(name);
    if (field === undefined && yaml !== undefined) {
      report(['by'], `unknown field "${name}"${suggestion(name, [...fields.keys()])}`);
    }
    if (field !== undefined && field.type.order === undefined) {
      report(['by'], `cannot sort by ${typeLabel(field)} fields`);
    }
    const sortable = selectable ? [...fields].filter(([, { type }]) => type.order !== undefined) : [];
    return { field: field as Field, direction, choices: new Map(sortable) };
  },
  reserved: ['sort', 'dir', 'cursor'],
  parameters: ({ choices }) => [...(choices.size > 0 ? ['sort', 'dir'] : []), 'cursor'],
  parse: (declaration, query, issues) => {
    let { field, direction } = declaration;
    const position = typeof query.cursor === 'string' ? parseCursor(query.cursor) : undefined;
    if (query.cursor !== undefined && position === undefined) issues.push(foreignCursorIssue());
    const start = position && { after: position };
    if (declaration.choices.size === 0) return { field, direction, ...start };
    const name = parameterValue(query, 'sort');
    if (name !== undefined) {
      const choice = typeof name === 'string' ? declaration.choices.get(name) : undefined;
      if (choice === undefined) {
        issues.push(unknownSortIssue(name, [...declaration.choices.keys()]));
      } else if (choice !== field) {
        field = choice;
        direction = 'asc';
      }
    }
    const dir = parameterValue(query, 'dir');
    if (dir !== undefined) {
      const choice = typeof dir === 'string' ? dir.toLowerCase() : '';
      if (choice === 'asc' || choice === 'desc') direction = choice;
      else issues.push(parameterIssue('dir', 'must be asc or desc'));
    }
    return { field, direction, ...start };
  },
  shape: ({ field, direction, after: position }) =>
    `${field.name} ${direction}${position === undefined ? '' : ` ${positionShape(position)}`}`,
  clauses: (_, { field, direction, after: position }, placeholder) => ({
    ...(position && {
      after: afterPosition(field, direction, position, (value) =>
        placeholder((order) => value(order.after ?? position)),
      ),
    }),
    // The ID makes the order unique, so that pages do not overlap.
    order: orderKeys({ field, direction }),
  }),
  describe: ({ field, direction, choices }) => [
    ...(choices.size === 0
      ? []
      : [
          {
            name: 'sort',
            in: 'query',
            description: `Field to sort by; default \`${field.name}\`. Records with equal values are ordered by ID.`,
            schema: { type: 'string', enum: [...choices.keys()] },
          },
          {
            name: 'dir',
            in: 'query',
            description: `Direction; default \`${direction}\` for \`${field.name}\`, \`asc\` for other fields.`,
            schema: { type: 'string', enum: ['asc', 'desc'] },
          },
        ]),
    { $ref: '#/components/parameters/cursor' },
  ],
  indexes: ({ field }) => [{ field, keys: [indexKey(field)] }],
};

/**
 * Returns the ORDER BY keys of an order, ending with the ID.
 * @param alias the table's alias
 */
export const orderKeys = (
  { field, direction }: Pick<Order, 'field' | 'direction'>,
  alias?: string,
): string[] =>
  [...(field.type.order?.(column(field, alias)) ?? []), column({ name: 'id' }, alias)].map(
    (key) => `${key} ${direction}`,
  );

/** Returns the issue for a cursor that does not belong to the list. */
export const foreignCursorIssue = () =>
  parameterIssue('cursor', 'is invalid', 'Follow the next URL from the Link header unchanged.');

/** Returns the issue for a field by which the list cannot be sorted. @param choices names of fields */
const unknownSortIssue = (name: string | readonly string[], choices: readonly string[]): FieldIssue =>
  parameterIssue(
    'sort',
    `must be one of ${choices.join(', ')}`,
    typeof name === 'string' ? hintForInput(name, choices) : undefined,
  );
