import type { FieldIssue } from '../errors.ts';
import { type Field, typeLabel } from '../fields/index.ts';
import { column, indexKey } from '../sql/index.ts';
import { hintForInput, oneOfSchema, suggestion } from '../yaml/index.ts';
import {
  parseCursor,
  positionConditions,
  positionShape,
  readingOrder,
  type UnverifiedCursor,
} from './cursor.ts';
import type { ListOrder } from './expansion.ts';
import { parameterIssue, parameterValue, type Query, type QueryPart } from './part.ts';

/** Maximum number of sort keys in a request. */
export const maxSortKeys = 4;

/** The default order of a resource's lists. */
export interface Sort extends ListOrder {
  /** Fields that callers can sort by, keyed by field name. Empty if the order is fixed. */
  readonly choices: ReadonlyMap<string, Field>;
}

/** The requested order, and the position at which the page starts. */
export interface Order extends ListOrder {
  /** The sort keys after the first one. Absent if there is only one. */
  readonly thenBy?: readonly ListOrder[];
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
    const order: Order =
      declaration.choices.size === 0 ? declaration : parseOrder(declaration, query, issues);
    const { field, direction, thenBy } = order;
    const parsed = { field, direction, ...(thenBy && { thenBy }) };
    if (query.cursor === undefined) return parsed;
    const position = typeof query.cursor === 'string' ? parseCursor(query.cursor) : undefined;
    if (position?.keys.length === sortKeys(parsed).length) return { ...parsed, after: position };
    issues.push(foreignCursorIssue());
    return parsed;
  },
  shape: (order) =>
    `${sortKeys(order)
      .map(({ field, direction }) => `${field.name} ${direction}`)
      .join()}${order.after === undefined ? '' : ` ${positionShape(order.after)}`}`,
  // No index provides the order of several keys.
  cost: ({ thenBy }) => ({ scan: thenBy !== undefined }),
  clauses: (_, order, placeholder) => {
    const { after: position } = order;
    const keys = sortKeys(order);
    return {
      ...(position && {
        after: positionConditions(keys, position, (value) =>
          placeholder((input) => value(input.after ?? position)),
        ),
      }),
      // The ID makes the order unique, so that pages do not overlap.
      order: orderKeys(readingOrder(keys, position)),
    };
  },
  describe: ({ field, direction, choices }) => [
    ...(choices.size === 0
      ? []
      : [
          {
            name: 'sort',
            in: 'query',
            description: `Field to sort by; default \`${field.name}\`. Up to ${maxSortKeys} comma-separated fields, each in ascending order or, after \`-\`, in descending order, sort by several fields. Records with equal values are ordered by ID.`,
            schema: {
              type: 'string',
              anyOf: [{ enum: [...choices.keys()] }, { pattern: `^-?\\w+(,-?\\w+){0,${maxSortKeys - 1}}$` }],
            },
          },
          {
            name: 'dir',
            in: 'query',
            description: `Direction; default \`${direction}\` for \`${field.name}\`, \`asc\` for other fields. Cannot be combined with several fields or with \`-\` in \`sort\`.`,
            schema: { type: 'string', enum: ['asc', 'desc'] },
          },
        ]),
    { $ref: '#/components/parameters/cursor' },
  ],
  indexes: ({ field }) => [{ field, keys: [indexKey(field)] }],
};

/** Returns the sort keys of an order, most significant first. */
export const sortKeys = (order: Pick<Order, 'field' | 'direction' | 'thenBy'>): readonly ListOrder[] =>
  order.thenBy === undefined ? [order] : [order, ...order.thenBy];

/** Parses `sort` and `dir`. */
function parseOrder(
  declaration: Sort,
  query: Query,
  issues: FieldIssue[],
): Pick<Order, 'field' | 'direction' | 'thenBy'> {
  const sort = parameterValue(query, 'sort');
  const dir = parameterValue(query, 'dir');
  const [first, ...thenBy] = sort === undefined ? [] : parseKeys(declaration, sort, issues);
  const order = first ?? declaration;
  if (dir === undefined) return thenBy.length === 0 ? order : { ...order, thenBy };
  if (typeof sort === 'string' && /^-|,/.test(sort)) {
    const hint = 'Write "-" before each field that sorts in descending order.';
    issues.push(parameterIssue('dir', 'cannot be combined with several fields or "-" in sort', hint));
    return order;
  }
  const direction = typeof dir === 'string' ? dir.toLowerCase() : '';
  if (direction === 'asc' || direction === 'desc') return { field: order.field, direction };
  issues.push(parameterIssue('dir', 'must be asc or desc'));
  return order;
}

/** Parses `sort`. A single field has the direction of the declared order if it is the declared field. */
function parseKeys(
  { field: defaultField, direction: defaultDirection, choices }: Sort,
  sort: string | readonly string[],
  issues: FieldIssue[],
): readonly ListOrder[] {
  const texts = typeof sort === 'string' ? sort.split(',') : [];
  const keys = texts.map((text): ListOrder | undefined => {
    const descends = text.startsWith('-');
    const field = choices.get(descends ? text.slice(1) : text);
    if (field === undefined) return undefined;
    const isDefault = texts.length === 1 && field === defaultField && !descends;
    return { field, direction: isDefault ? defaultDirection : descends ? 'desc' : 'asc' };
  });
  const known = keys.filter((key) => key !== undefined);
  if (keys.length === 0 || known.length < keys.length) {
    const unknown = texts[keys.indexOf(undefined)]?.replace(/^-/, '') ?? sort;
    issues.push(unknownSortIssue(unknown, [...choices.keys()]));
    return [];
  }
  if (keys.length > maxSortKeys)
    issues.push(parameterIssue('sort', `must not contain more than ${maxSortKeys} fields`));
  else if (new Set(known.map(({ field }) => field)).size < known.length)
    issues.push(parameterIssue('sort', 'must not contain a field twice'));
  return known;
}

/**
 * Returns the ORDER BY keys of an order, ending with the ID, which has the direction of the last sort key.
 * @param alias the table's alias
 */
export const orderKeys = (orders: readonly ListOrder[], alias?: string): string[] => [
  ...orders.flatMap(({ field, direction }) =>
    (field.type.order?.(column(field, alias)) ?? []).map((key) => `${key} ${direction}`),
  ),
  `${column({ name: 'id' }, alias)} ${orders.at(-1)?.direction ?? 'asc'}`,
];

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
