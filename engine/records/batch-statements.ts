import { sqlState } from '../database/index.ts';
import { errorJson, errors, fieldLimiter, type HttpError } from '../errors.ts';
import { type Placeholder, type Prepared, prepare, record } from '../sql/index.ts';
import type { Assignment } from './assignments.ts';
import type { BatchPlan } from './batch.ts';
import type { OperationContext } from './operation.ts';
import { visibleSql } from './rows.ts';
import { effectsOf, tableOf } from './statements.ts';
import { updateOf } from './update.ts';

/**
 * Prepares a statement for many records. It is unnamed and therefore planned on every execution, because a
 * plan cached while the table was small would compare every record with every item.
 */
export const prepareBatch = <Input>(write: (placeholder: Placeholder<Input>) => string): Prepared<Input> =>
  prepare('', 'batch', write);

/** Returns whether PostgreSQL rolled back the statement because of a deadlock. */
export const isDeadlock = (cause: unknown): boolean => sqlState(cause) === '40P01';

const failureJson = (error: Pick<HttpError, 'status' | 'message' | 'code' | 'extra'>): string =>
  `{"status":${error.status},${errorJson(error, {}).slice(1)}`;
const notFound = failureJson(errors.notFound());

/**
 * Returns an SQL expression for the response, with one result per item, in order.
 * @param results SELECT statements that return `_n` and the result's JSON
 */
export const resultsSql = ($: Placeholder<BatchPlan>, results: readonly string[]): string =>
  `'{"results":[' || (select string_agg(_r._json, ',' order by _r._n) from (${[
    ...results,
    `select * from unnest(${$(skippedOf)}::bigint[], ${$(failuresOf)}::text[]) _f`,
  ].join(' union all ')}) _r(_n, _json)) || ']}'`;

const skippedOf = ({ skipped }: BatchPlan) => skipped;
const failuresOf = ({ failures }: BatchPlan) => {
  const limitFields = fieldLimiter();
  return [...failures.values()].map(({ status, message, code, extra }) =>
    failureJson({ status, message, code, extra: limitFields(extra) }),
  );
};

/**
 * Returns an SQL expression for the result of a successful write.
 * @param id SQL expression for the record's ID
 */
export const successSql = (status: 200 | 201, id: string): string =>
  `'{"status":${status},"id":' || ${id} || '}'`;

/** Returns an SQL expression for the result of an item whose record does not exist. */
const missingSql = ($: Placeholder<BatchPlan>): string => `${$(notFoundOf)}::text`;
const notFoundOf = () => notFound;

/**
 * Returns the common table expression `_found`, which contains the items with the IDs of their records, and
 * locks these records in a consistent order. It includes all item columns. If `_items` were joined again,
 * PostgreSQL would underestimate the row counts and compare every item with every record.
 * @param where the condition that matches an item's record
 * @param lock the lock mode; `update` for records that will be deleted
 */
export const lockedItemsSql = (context: OperationContext, where: string, lock = 'no key update'): string =>
  `_found as materialized (select _i.*, ${record}."id" from _items _i join ${tableOf(context)} ${record} on ${where} order by ${record}."id" for ${lock} of ${record})`;

/**
 * Returns the common table expressions that update the records in `_found`, including effects.
 * @param where an additional condition
 */
export const updateItems = (
  context: OperationContext,
  assignments: readonly Assignment[],
  $: Placeholder<BatchPlan>,
  name: string,
  where = '',
): string => {
  const condition = `${visibleSql($)} and ${record}."id" = _i."id"${where}`;
  const update = updateOf(context, assignments, condition, ' from _found _i');
  return `${name} as (${update} returning ${record}.*)${effectsOf(context, 'update', $, { name })}`;
};

/** Returns an SQL condition that is true if all required records were found. */
export const allFoundSql = ($: Placeholder<BatchPlan>): string =>
  ` and (select count(*) from _found) >= ${$(requiredCount)}::int`;
const requiredCount = ({ stops, size }: BatchPlan) => (stops ? String(size) : '0');

/** Returns a SELECT statement for the results of items whose records do not exist. */
export const missingResults = ($: Placeholder<BatchPlan>): string =>
  `select _i._n, ${missingSql($)} from _items _i where not exists (select from _found _f where _f._n = _i._n)`;

/**
 * SQL expression for the indexes of items whose records do not exist, starting at 1 and separated by commas.
 * Null if every record exists.
 */
export const missingIndexes =
  "(select string_agg(_i._n::text, ',' order by _i._n) from _items _i where not exists (select from _found _f where _f._n = _i._n))";
