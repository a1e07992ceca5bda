import { type ParsedQuery, queryClauses, queryCost } from '../query/index.ts';
import { column, type Placeholder, quote, record, type SelectedColumns } from '../sql/index.ts';
import { isIndexed } from './indexes.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { projectedColumns, selectProjection } from './projected-columns.ts';
import { responseValueSql } from './projection.ts';
import { visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** Which records of a list a statement reads. */
export interface Selection {
  /** The WHERE clause of the list, without its place in the order. */
  readonly conditions: string;
  /** The keys of the order, each with its direction. */
  readonly order: string;
  /** The columns of {@link listColumns}, and the joins that they need, each beginning with a space. */
  readonly shown: { readonly columns: string; readonly joins: string };
  /** The statement that selects them in their order. */
  readonly page: string;
  /** The statement that selects the rows of the table in their order, with a further column. */
  readonly rowsWith: (further: string) => string;
}

/** A plan of a list. */
export interface ListInput extends OperationPlan {
  readonly asked: ParsedQuery;
}

/** @param most records, instead of a page */
export function compileListScope(
  context: OperationContext,
  asked: ParsedQuery,
  $: Placeholder<ListInput>,
  most?: number,
): Selection {
  const { definition } = context;
  const table = tableOf(context);
  const rows = visibleSql($);
  const clauses = queryClauses(definition, asked, $);
  const { where = [], after = [], limit, offset } = clauses;
  const conditions = `where ${[rows, ...where].join(' and ')}`;
  const order = (clauses.order ?? []).join(', ');
  const ordered = `order by ${order}`;
  const ofPage = `limit ${most ?? limit}`;
  const paged = `${ofPage}${offset === undefined ? '' : ` offset ${offset}::bigint`}`;
  const gathered = findsFirst(asked);
  // Where many rows are passed or sorted, only those of the page are read whole and have their columns computed.
  const keysFirst = gathered || listLane(context, asked) !== 'list';
  const branches = (after.length === 0 ? [''] : after.map((condition) => ` and ${condition}`)).map(
    (condition) => {
      // OFFSET 0 keeps the planner from walking the order instead, which reads every record that does not match.
      const found = gathered
        ? `(select ${record}.* from ${table} ${record} ${conditions}${condition} offset 0) ${record}`
        : `${table} ${record} ${conditions}${condition}`;
      return `(select ${record}."id" from ${found} ${ordered} ${paged})`;
    },
  );
  const rowsOf = (columns: string, joins = '') =>
    keysFirst || branches.length > 1
      ? `select ${columns} from (${branches.join(' union all ')}) k join ${table} ${record} on ${rows} and ${record}."id" = k."id"${joins} ${ordered} ${ofPage}`
      : `select ${columns} from ${table} ${record}${joins} ${conditions}${after.map((condition) => ` and ${condition}`).join('')} ${ordered} ${paged}`;
  const { columns, joins } = selectProjection(context, asked, $);
  const key = hasSortKey(context, asked)
    ? ''
    : `, ${responseValueSql(asked.sort.field)} as ${quote(sortKey)}`;
  const shown = { columns: `${columns}${key}`, joins };
  return {
    conditions,
    order,
    shown,
    page: rowsOf(shown.columns, joins),
    rowsWith: (further) => rowsOf(`${record}.*, ${further}`),
  };
}

/** The further column with the sort key of a record that does not show it. */
const sortKey = '_key';

const hasSortKey = (context: OperationContext, asked: ParsedQuery): boolean =>
  projectedColumns(context, asked).some(({ name }) => name === asked.sort.field.name);

/** What the statement of a list selects; id and sort key of the last record come after their number. */
export function listColumns(context: OperationContext, asked: ParsedQuery): SelectedColumns {
  const fields = projectedColumns(context, asked);
  return hasSortKey(context, asked)
    ? { fields, last: ['id', asked.sort.field.name] }
    : { fields, last: ['id'], further: [sortKey] };
}

/**
 * Whether the plan of a short list is the same for all values: an index has its records in their order. Otherwise the
 * planner has to know the values, and many lists cannot be one statement.
 */
export function hasStablePlan(context: OperationContext, asked: ParsedQuery): boolean {
  const { equal, find, sort } = queryCost(asked);
  const keys = sort.type.order?.(column(sort)) ?? [];
  const inOrder = find.length === 0 && (equal.length === 0 || keys.length === 1);
  return listLane(context, asked) === 'list' && asked.sort.after === undefined && inOrder;
}

/** Whether an index finds the records, but not in the order of the list: they are gathered, then sorted. */
function findsFirst(asked: ParsedQuery): boolean {
  const { find, gather, sort } = queryCost(asked);
  return gather || find.some((field) => field !== sort);
}

/** Whether an index gives the page without reading the organization's other records, and how much of the index. */
export function listLane({ definition }: OperationContext, asked: ParsedQuery): 'list' | 'deep' | 'scan' {
  const { equal, find, sort, scan } = queryCost(asked);
  const inOrder = find.every((field) => field === sort);
  if (scan || !inOrder || !isIndexed(definition, equal, sort)) return 'scan';
  return asked.page.depth === 'deep' ? 'deep' : 'list';
}
