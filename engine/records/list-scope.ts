import type { TextRows } from '../database/index.ts';
import type { Field } from '../fields/index.ts';
import {
  type ConditionNode,
  type CursorPosition,
  encodeCursor,
  expandedRecords,
  isGroup,
  oppositeSide,
  orderKeys,
  type ParsedQuery,
  positionText,
  type Query,
  queryClauses,
  queryCost,
  readsBackward,
  sortKeys,
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

/** Returns values that identify the conditions of a list, for texts to sign. */
export const conditionKey = ({ filters, search }: ParsedQuery) =>
  [filters.map(signedCondition), search] as const;

/**
 * Returns the text covered by a cursor's signature. A cursor is valid only for the same organization, order
 * and filters.
 */
function signedText(
  { organization, resource, view, trashed, parsedQuery: query }: ListPlan,
  position: string,
): string {
  const { sort } = query;
  const order = sortKeys(sort).flatMap(({ field, direction }) => [field.name, field.typeName, direction]);
  const list = [
    organization,
    resource,
    order,
    ...conditionKey(query),
    position,
    ...(trashed === undefined ? [] : [{ trashed }]),
  ];
  return JSON.stringify(view === '' ? list : [...list, view]);
}

/** Returns the part of a cursor's signed text for a condition. */
const signedCondition = (node: ConditionNode): readonly unknown[] =>
  isGroup(node)
    ? [node.combination, node.members.map(signedCondition)]
    : [node.field.name, node.operator, node.values.toSorted()];

/** Returns whether a plan's cursor, if any, was issued for this list. */
export function isValidCursor(plan: ListPlan): boolean {
  const { after } = plan.parsedQuery.sort;
  if (after === undefined) return true;
  return plan.signing?.verify(signedText(plan, after.text), after.signature) === true;
}

/**
 * Returns the cursors of the pages before and after a page, each undefined if there is no such page or the plan has no
 * signer. A page in reading order starts at the position of its cursor, so the page on the other side ends there.
 * @param last the last record of the page in reading order, or undefined if the page is not full
 */
export function neighbors(
  plan: ListPlan,
  last: Pick<CursorPosition, 'keys' | 'id'> | undefined,
): { readonly previous: string | undefined; readonly next: string | undefined } {
  const { signing, parsedQuery } = plan;
  const { after: position } = parsedQuery.sort;
  const page = position?.page ?? parsedQuery.page.page;
  const cursorOf = (
    neighbor: Omit<CursorPosition, 'page'> | undefined,
    step: 1n | -1n,
  ): string | undefined => {
    if (signing === undefined || neighbor === undefined) return undefined;
    // Records added since the walk started can make it longer than the number of its first page.
    const number = page + step < 1n ? 1n : page + step;
    const text = positionText({ ...neighbor, page: number });
    return encodeCursor(text, signing.sign(signedText(plan, text)));
  };
  const opposite = position && { ...position, side: oppositeSide(position) };
  if (position === undefined || !readsBackward(position))
    return { previous: cursorOf(opposite, -1n), next: cursorOf(last && { ...last, side: 'after' }, 1n) };
  return { previous: cursorOf(last && { ...last, side: 'before' }, -1n), next: cursorOf(opposite, 1n) };
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
  const reading = `order by ${(clauses.order ?? []).join(', ')}`;
  const isBackward = query.sort.after !== undefined && readsBackward(query.sort.after);
  const order = (isBackward ? orderKeys(sortKeys(query.sort)) : (clauses.order ?? [])).join(', ');
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
      return `(select ${record}."id" from ${source} ${reading} ${pageClause})`;
    },
  );
  const union = branches.join(' union all ');
  const join = (ids: string) =>
    `from (${ids}) k join ${table} ${record} on ${rows} and ${record}."id" = k."id"`;
  // A page that reads backward is limited before it is sorted.
  const selected =
    isBackward && branches.length > 1
      ? `select ${record}."id" ${join(union)} ${reading} ${limitClause}`
      : union;
  const rowsOf = (columns: string, joins = '') =>
    keysFirst || isBackward || branches.length > 1
      ? `select ${columns} ${join(selected)}${joins} ${orderClause} ${limitClause}`
      : `select ${columns} from ${table} ${record}${joins} ${conditions}${after.map((condition) => ` and ${condition}`).join('')} ${orderClause} ${pageClause}`;
  const positionColumns = positionColumnsOf(context, query).map(({ name, value }) => {
    // The records of a page that reads backward continue before the first one.
    const selectedValue = isBackward ? `first_value(${value}) over (${orderClause})` : value;
    return `, ${selectedValue} as ${quote(name)}`;
  });
  const projection = { columns: `${columns}${positionColumns.join('')}`, joins: joinsSql };
  return {
    conditions,
    order,
    projection,
    page: rowsOf(projection.columns, projection.joins),
    rowsWith: (extraColumn) => rowsOf(`${record}.*, ${extraColumn}`),
  };
}

/** A column with a part of a position. */
interface PositionColumn {
  readonly name: string;
  /** SQL expression. */
  readonly value: string;
}

/**
 * Returns the columns with the sort keys of the page's last record, and with the ID of the first record instead if the page
 * reads backward. Empty if the projection contains the only sort key of a page that reads forward.
 */
function positionColumnsOf(context: OperationContext, query: ParsedQuery): readonly PositionColumn[] {
  const { sort } = query;
  const keys = sortKeys(sort).map(
    ({ field }, index): PositionColumn => ({
      name: index === 0 ? '_key' : `_key${index + 1}`,
      value: responseValueSql(field),
    }),
  );
  if (sort.after !== undefined && readsBackward(sort.after))
    return [{ name: '_id', value: column({ name: 'id' }, record) }, ...keys];
  const isProjected = projectedColumns(context, query).some(({ name }) => name === sort.field.name);
  return isProjected && keys.length === 1 ? [] : keys;
}

const decodeRecords = rowDecoder({ json: cell.encoded, count: cell.count, id: cell.nullableText });
/** Number of columns before the sort keys. */
const keyOffset = 3;

/** A decoded page. */
export interface DecodedPage extends ReturnType<typeof decodeRecords> {
  /** The sort keys of the last record in reading order. Null if the page is empty. */
  readonly keys: readonly (string | null)[];
}

/**
 * Decodes the row that a list's statement returns: the records, their count, and the ID and sort keys of the last record in
 * reading order. The ID and the keys are null on an empty page.
 */
export const decodePage = ({ sort }: ParsedQuery, row: TextRows[number]): DecodedPage => ({
  ...decodeRecords(row),
  keys: sortKeys(sort).map((_, index) => cell.nullableText(row[keyOffset + index] ?? null)),
});

/** Returns the number of columns that {@link decodePage} reads. */
export const pageWidth = ({ sort }: ParsedQuery): number => keyOffset + sortKeys(sort).length;

/** Returns the position of a page's last record in reading order. */
export const lastPosition = (
  { sort }: ParsedQuery,
  { id, keys }: DecodedPage,
): Pick<CursorPosition, 'id' | 'keys'> => ({
  id: String(id),
  keys: sortKeys(sort).map(({ field: { type } }, index) => {
    const key = keys[index] ?? null;
    return key === null ? null : (type.toBound?.(key) ?? key);
  }),
});

/**
 * Returns the columns that a list's statement selects. The cursors of its neighbors contain the ID and sort keys of the last
 * record in reading order.
 */
export function listColumns(context: OperationContext, query: ParsedQuery): SelectedColumns {
  const fields = projectedColumns(context, query);
  const additional = positionColumnsOf(context, query).map(({ name }) => name);
  if (additional.length === 0) return { fields, last: ['id', query.sort.field.name] };
  return { fields, last: additional.includes('_id') ? [] : ['id'], additional };
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
