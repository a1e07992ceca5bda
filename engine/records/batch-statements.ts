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
 * Prepares a statement for many records. It has no name, so that it is planned each time: a plan from when the table was
 * small would compare each record with each item.
 */
export const prepareBatch = <Input>(write: (placeholder: Placeholder<Input>) => string): Prepared<Input> =>
  prepare('', 'batch', write);

/** Whether two statements waited for each other; one of them is ended, without a change. */
export const isDeadlock = (cause: unknown): boolean => sqlState(cause) === '40P01';

const failureOf = (error: Pick<HttpError, 'status' | 'message' | 'code' | 'extra'>): string =>
  `{"status":${error.status},${errorJson(error, {}).slice(1)}`;
const notFound = failureOf(errors.notFound());

/** SQL of the response: one result for each item, in their order. @param results rows of `_n` and its JSON */
export const resultsSql = ($: Placeholder<BatchPlan>, results: readonly string[]): string =>
  `'{"results":[' || (select string_agg(_r._json, ',' order by _r._n) from (${[
    ...results,
    `select * from unnest(${$(skippedOf)}::bigint[], ${$(failuresOf)}::text[]) _f`,
  ].join(' union all ')}) _r(_n, _json)) || ']}'`;

const skippedOf = ({ skipped }: BatchPlan) => skipped;
const failuresOf = ({ failures }: BatchPlan) => {
  const limitFields = fieldLimiter();
  return [...failures.values()].map(({ status, message, code, extra }) =>
    failureOf({ status, message, code, extra: limitFields(extra) }),
  );
};

/** SQL of the JSON of a record that was written. @param id SQL of its id */
export const successSql = (status: 200 | 201, id: string): string =>
  `'{"status":${status},"id":' || ${id} || '}'`;

/** SQL of the JSON for an item whose record is missing. */
const missingSql = ($: Placeholder<BatchPlan>): string => `${$(notFoundOf)}::text`;
const notFoundOf = () => notFound;

/**
 * The expression `_found`: items and the ids of their records, locked one after the other in one order. The items are in
 * it because joining them again would compare each with each: PostgreSQL takes both for a few rows.
 * @param where the condition that finds the record of an item
 * @param lock how, `update` for records that will be deleted
 */
export const lockedItemsSql = (context: OperationContext, where: string, lock = 'no key update'): string =>
  `_found as materialized (select _i.*, ${record}."id" from _items _i join ${tableOf(context)} ${record} on ${where} order by ${record}."id" for ${lock} of ${record})`;

/** The expression that changes the records of `_found`, with its effects. @param where a further condition */
export const updateItems = (
  context: OperationContext,
  assigned: readonly Assignment[],
  $: Placeholder<BatchPlan>,
  name: string,
  where = '',
): string => {
  const found = `${visibleSql($)} and ${record}."id" = _i."id"${where}`;
  const update = updateOf(context, assigned, found, ' from _found _i');
  return `${name} as (${update} returning ${record}.*)${effectsOf(context, 'update', $, { name })}`;
};

/** The condition that as many records were found as are needed. */
export const allFoundSql = ($: Placeholder<BatchPlan>): string =>
  ` and (select count(*) from _found) >= ${$(needed)}::int`;
const needed = ({ stops, size }: BatchPlan) => (stops ? String(size) : '0');

/** The items whose records are missing, as results. */
export const missingResults = ($: Placeholder<BatchPlan>): string =>
  `select _i._n, ${missingSql($)} from _items _i where not exists (select from _found _f where _f._n = _i._n)`;

/** The numbers of the items whose records are missing, with commas between; null if there are none. */
export const missingIndexes =
  "(select string_agg(_i._n::text, ',' order by _i._n) from _items _i where not exists (select from _found _f where _f._n = _i._n))";
