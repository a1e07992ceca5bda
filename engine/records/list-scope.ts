import type { Field } from '../fields/index.ts';
import {
  type CursorPosition,
  encodeCursor,
  expandedRecords,
  type ParsedQuery,
  positionText,
  type Query,
  queryClauses,
  queryCost,
} from '../query/index.ts';
import {
  cell,
  column,
  type Placeholder,
  quote,
  record,
  rowDecoder,
  type SelectedColumns,
} from '../sql/index.ts';
import { expansionLane } from './expanded.ts';
import { isIndexed } from './indexes.ts';
import { callerSql } from './link-tables.ts';
import type { CountMode, OperationContext, OperationPlan, TextSigner } from './operation.ts';
import { projectedColumns, selectProjection } from './projected-columns.ts';
import { responseValueSql } from './projection.ts';
import { scopeField, visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** The plan for a list. */
export interface ListPlan extends OperationPlan {
  readonly resource: string;
  /** Key of the view in which the list is read. */
  readonly view: string;
  /** Whether the list contains the records in the trash. */
  readonly trashed?: OperationContext['trashed'];
  readonly parsedQuery: ParsedQuery;
  readonly query: Query;
  /** The custom fields of the list's records. Absent if the resource has none. */
  readonly customFields?: readonly Field[];
  readonly signing: TextSigner | undefined;
  /** How to count the records on all pages; undefined if they are not counted. */
  readonly counting: CountMode | undefined;
}

/**
 * Returns the text covered by a cursor's signature. A cursor is valid only for the same organization, order
 * and filters.
 */
function signedText(
  { organization, resource, view, trashed, parsedQuery: query }: ListPlan,
  position: string,
): string {
  const { sort, filters, search } = query;
  const conditions = filters.map(({ field, operator, values }) => [field.name, operator, values.toSorted()]);
  const order = [sort.field.name, sort.field.typeName, sort.direction];
  const list = [
    organization,
    resource,
    order,
    conditions,
    search,
    position,
    ...(trashed === undefined ? [] : [{ trashed }]),
  ];
  return JSON.stringify(view === '' ? list : [...list, view]);
}

/** Returns whether a plan's cursor, if any, was issued for this list. */
export function isValidCursor(plan: ListPlan): boolean {
  const { after } = plan.parsedQuery.sort;
  if (after === undefined) return true;
  return plan.signing?.verify(signedText(plan, after.text), after.signature) === true;
}

/**
 * Returns the cursor for the page after a full page, or undefined without a signer.
 * @param last the page's last record
 */
export function nextCursor(plan: ListPlan, last: Omit<CursorPosition, 'page'>): string | undefined {
  const { signing, parsedQuery } = plan;
  if (signing === undefined) return undefined;
  const page = String(BigInt(parsedQuery.sort.after?.page ?? parsedQuery.page.page) + 1n);
  const text = positionText({ ...last, page });
  return encodeCursor(text, signing.sign(signedText(plan, text)));
}

/** SQL for the rows that a list reads. */
interface ListScope {
  /** The list's WHERE clause, without the cursor's position. */
  readonly conditions: string;
  /** The sort keys with their directions. */
  readonly order: string;
  /** The columns of {@link listColumns} and their joins, each starting with a space. */
  readonly projection: { readonly columns: string; readonly joins: string };
  /** Statement that selects a page's columns, in order. */
  readonly page: string;
  /** Returns a statement that selects a page's complete rows, in order, and an additional column. */
  readonly rowsWith: (extraColumn: string) => string;
}

/** The input for a list's statements. */
interface ListScopePlan extends OperationPlan {
  readonly parsedQuery: ParsedQuery;
}

/** Compiles the SQL for a list. @param maxRecords replaces the page size */
export function compileListScope(
  context: OperationContext,
  query: ParsedQuery,
  $: Placeholder<ListScopePlan>,
  maxRecords?: number,
): ListScope {
  const { definition } = context;
  const table = tableOf(context);
  const rows = visibleSql(context, 'list', $);
  const clauses = queryClauses(definition, query, $, callerSql(context, $));
  const { where = [], after = [], limit, offset } = clauses;
  const conditions = `where ${[rows, ...where].join(' and ')}`;
  const order = (clauses.order ?? []).join(', ');
  const orderClause = `order by ${order}`;
  const limitClause = `limit ${maxRecords ?? limit}`;
  const pageClause = `${limitClause}${offset === undefined ? '' : ` offset ${offset}::bigint`}`;
  const filtersFirst = findsFirst(query);
  const { columns, joins } = selectProjection(context, query, $);
  const joinsSql = joins($);
  // If many rows are skipped or sorted, IDs are selected first, so that only the page's rows are read
  // completely.
  const keysFirst =
    filtersFirst ||
    (listLane(context, query) !== 'list' && (joinsSql !== '' || !combinesEqualities(context, query)));
  const branches = (after.length === 0 ? [''] : after.map((condition) => ` and ${condition}`)).map(
    (condition) => {
      // OFFSET 0 prevents the planner from walking the sort index, which would read every record that does
      // not match.
      const source = filtersFirst
        ? `(select ${record}.* from ${table} ${record} ${conditions}${condition} offset 0) ${record}`
        : `${table} ${record} ${conditions}${condition}`;
      return `(select ${record}."id" from ${source} ${orderClause} ${pageClause})`;
    },
  );
  const rowsOf = (columns: string, joins = '') =>
    keysFirst || branches.length > 1
      ? `select ${columns} from (${branches.join(' union all ')}) k join ${table} ${record} on ${rows} and ${record}."id" = k."id"${joins} ${orderClause} ${limitClause}`
      : `select ${columns} from ${table} ${record}${joins} ${conditions}${after.map((condition) => ` and ${condition}`).join('')} ${orderClause} ${pageClause}`;
  const key = hasSortKey(context, query)
    ? ''
    : `, ${responseValueSql(query.sort.field)} as ${quote(sortKey)}`;
  const projection = { columns: `${columns}${key}`, joins: joinsSql };
  return {
    conditions,
    order,
    projection,
    page: rowsOf(projection.columns, projection.joins),
    rowsWith: (extraColumn) => rowsOf(`${record}.*, ${extraColumn}`),
  };
}

/** Column with the sort key, for projections that do not include it. */
const sortKey = '_key';

const hasSortKey = (context: OperationContext, query: ParsedQuery): boolean =>
  projectedColumns(context, query).some(({ name }) => name === query.sort.field.name);

/**
 * Decodes the row that a list's statement returns: the records, their count, and the last record's ID and
 * sort key. The last two are null on an empty page.
 */
export const decodePage = rowDecoder({
  json: cell.encoded,
  count: cell.count,
  id: cell.nullableText,
  key: cell.nullableText,
});

/** Returns the position after a page, from the row decoded by {@link decodePage}. */
export function positionAfter(
  { sort: { field } }: ParsedQuery,
  { id, key }: ReturnType<typeof decodePage>,
): Pick<CursorPosition, 'id' | 'key'> {
  const { toBound = (text: string) => text } = field.type;
  return { id: String(id), key: key === null ? null : toBound(key) };
}

/**
 * Returns the columns that a list's statement selects. The next page's cursor contains the ID and sort key of
 * the last record.
 */
export function listColumns(context: OperationContext, query: ParsedQuery): SelectedColumns {
  const fields = projectedColumns(context, query);
  return hasSortKey(context, query)
    ? { fields, last: ['id', query.sort.field.name] }
    : { fields, last: ['id'], additional: [sortKey] };
}

/**
 * Returns whether a list is short and has the same query plan for all values, because an index provides its
 * order. For other lists, the planner needs the values, so several lists cannot share a statement.
 */
export function hasStablePlan(context: OperationContext, query: ParsedQuery): boolean {
  const { equal, find, sort } = listCost(context, query);
  const keys = sort.type.order?.(column(sort)) ?? [];
  const inOrder = find.length === 0 && (equal.length === 0 || keys.length === 1);
  const isShort = expandedRecords(query.expansion) === 0 && query.sort.after === undefined;
  return listLane(context, query) === 'list' && isShort && inOrder;
}

/**
 * Returns whether the records must be sorted because the index that finds them does not provide the list's
 * order.
 */
function findsFirst(query: ParsedQuery): boolean {
  const { find, gather, sort } = queryCost(query);
  return gather || find.some((field) => field !== sort);
}

/**
 * Returns whether a list is the first page of the records with equal values in several fields. If no index contains all of
 * them, the planner chooses the index of one field, and planning a join would take longer than the join saves.
 */
function combinesEqualities(context: OperationContext, query: ParsedQuery): boolean {
  const { equal, find, scan } = listCost(context, query);
  return equal.length > 1 && find.length === 0 && !scan && query.page.depth === 'first';
}

/** Returns the index that a list needs, including the limits of the caller's grants. */
function listCost(
  { stored, rows, trashed }: OperationContext,
  query: ParsedQuery,
): ReturnType<typeof queryCost> {
  const cost = queryCost(query);
  // The other indexes also contain the records outside the trash.
  if (trashed !== undefined) return { ...cost, scan: true };
  const limits = rows?.list ?? [];
  if (limits.length === 0) return cost;
  const fields = limits.map(([scope, ...more]) =>
    scope === undefined || more.length > 0 ? undefined : scopeField(stored, scope),
  );
  // Other conditions are not served by an index.
  if (fields.includes(undefined)) return { ...cost, scan: true };
  return { ...cost, equal: [...new Set([...cost.equal, ...fields.flatMap((field) => field ?? [])])] };
}

/**
 * Returns a list's lane: `scan` if no index provides the page, `deep` if the page is far from the start,
 * otherwise `list`.
 */
export function listLane(context: OperationContext, query: ParsedQuery): 'list' | 'deep' | 'scan' {
  const { equal, find, sort, scan } = listCost(context, query);
  const inOrder = find.every((field) => field === sort);
  if (scan || !inOrder || !isIndexed(context.stored, equal, sort)) return 'scan';
  if (expansionLane(context, query.expansion, context.definition.page.size) === 'scan') return 'scan';
  return query.page.depth === 'deep' ? 'deep' : 'list';
}
