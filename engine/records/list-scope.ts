import { type ParsedQuery, queryClauses, queryCost } from '../query/index.ts';
import { column, type Placeholder, quote, record, type SelectedColumns } from '../sql/index.ts';
import { isIndexed } from './indexes.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { projectedColumns, selectProjection } from './projected-columns.ts';
import { responseValueSql } from './projection.ts';
import { visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** The records that a list's statement reads. */
export interface Selection {
  /** The WHERE clause of the list, without the cursor's position. */
  readonly conditions: string;
  /** The sort keys, each with its direction. */
  readonly order: string;
  /** The columns of {@link listColumns} and the joins they need, each starting with a space. */
  readonly shown: { readonly columns: string; readonly joins: string };
  /** The statement that selects the columns in order. */
  readonly page: string;
  /** The statement that selects the table's rows in order, with an additional column. */
  readonly rowsWith: (further: string) => string;
}

/** A plan of a list. */
export interface ListInput extends OperationPlan {
  readonly asked: ParsedQuery;
}

/** @param most maximum number of records, instead of a page */
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
  // If many rows are skipped or sorted, only the rows of the page are read completely and their columns computed.
  const keysFirst = gathered || listLane(context, asked) !== 'list';
  const branches = (after.length === 0 ? [''] : after.map((condition) => ` and ${condition}`)).map(
    (condition) => {
      // OFFSET 0 prevents the planner from walking the sort index, which would read every record that does not match.
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

/** An additional column with the sort key of a record whose projection does not include it. */
const sortKey = '_key';

const hasSortKey = (context: OperationContext, asked: ParsedQuery): boolean =>
  projectedColumns(context, asked).some(({ name }) => name === asked.sort.field.name);

/** Returns what a list's statement selects; the ID and sort key of the last record follow their number. */
export function listColumns(context: OperationContext, asked: ParsedQuery): SelectedColumns {
  const fields = projectedColumns(context, asked);
  return hasSortKey(context, asked)
    ? { fields, last: ['id', asked.sort.field.name] }
    : { fields, last: ['id'], additional: [sortKey] };
}

/**
 * Returns whether a short list has the same plan for all values, because an index provides the order. Otherwise the
 * planner has to know the values, and several lists cannot share a statement.
 */
export function hasStablePlan(context: OperationContext, asked: ParsedQuery): boolean {
  const { equal, find, sort } = queryCost(asked);
  const keys = sort.type.order?.(column(sort)) ?? [];
  const inOrder = find.length === 0 && (equal.length === 0 || keys.length === 1);
  return listLane(context, asked) === 'list' && asked.sort.after === undefined && inOrder;
}

/** Returns whether an index finds the records in another order than the list's, so that they must be sorted. */
function findsFirst(asked: ParsedQuery): boolean {
  const { find, gather, sort } = queryCost(asked);
  return gather || find.some((field) => field !== sort);
}

/** Returns the lane by whether an index provides the page without a scan, and how much of the index is read. */
export function listLane({ definition }: OperationContext, asked: ParsedQuery): 'list' | 'deep' | 'scan' {
  const { equal, find, sort, scan } = queryCost(asked);
  const inOrder = find.every((field) => field === sort);
  if (scan || !inOrder || !isIndexed(definition, equal, sort)) return 'scan';
  return asked.page.depth === 'deep' ? 'deep' : 'list';
}
