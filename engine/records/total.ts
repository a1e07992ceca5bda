import type { TextRows } from '../database/index.ts';
import { queryClauses } from '../query/index.ts';
import { prepare, record, type Statement } from '../sql/index.ts';
import type { ListPlan } from './cursors.ts';
import type { CountMode, OperationContext } from './operation.ts';
import { visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** Index of the count column in a list statement's rows. */
const totalIndex = 4;
/** Maximum number of records that are counted exactly when an estimate is requested. */
const maxExactCount = 10_000;

/**
 * Returns the column with the number of records on all pages.
 * @param conditions the list's WHERE clause, without the cursor's position
 */
export function totalColumn(context: OperationContext, conditions: string, counting: CountMode): string {
  const source = `from ${tableOf(context)} ${record} ${conditions}`;
  return counting === 'exact'
    ? `(select count(*) ${source})::text`
    : `(select count(*) from (select ${source} limit ${maxExactCount + 1}) _c)::text`;
}

/**
 * Returns the statement that estimates the number of records, or undefined if the list's statement counted
 * all of them.
 */
export function estimate(context: OperationContext, plan: ListPlan, rows: TextRows): Statement | undefined {
  if (plan.counting !== 'estimated' || Number(rows[0]?.[totalIndex]) <= maxExactCount) return undefined;
  const { after: _, ...sort } = plan.parsedQuery.sort;
  // This statement does not use the offset, and PostgreSQL cannot infer the type of an unused parameter.
  const page = { ...plan.parsedQuery.page, depth: 'first' } as const;
  const parsedQuery = { ...plan.parsedQuery, sort, page };
  // The statement is unnamed because it rarely runs. Its first row contains the planner's estimate.
  const { bind } = prepare<ListPlan>('', 'scan', ($) => {
    const { where = [] } = queryClauses(context.definition, parsedQuery, $);
    return `explain select from ${tableOf(context)} ${record} where ${[visibleSql($), ...where].join(' and ')}`;
  });
  return bind(plan);
}

/** Returns the number of records on all pages as decimal text, or undefined if it was not requested. */
export function totalOf([page, plan]: TextRows): string | undefined {
  const number = page?.[totalIndex]?.toString();
  const estimatedCount = /rows=(\d+)/.exec(String(plan?.[0]))?.[1];
  return estimatedCount === undefined ? number : String(Math.max(Number(estimatedCount), maxExactCount + 1));
}
