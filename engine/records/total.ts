import type { TextRows } from '../database/index.ts';
import { queryClauses } from '../query/index.ts';
import { prepare, record, type Statement } from '../sql/index.ts';
import type { LinkedPlan } from './links.ts';
import type { CountMode, OperationContext } from './operation.ts';
import { visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** Index of the column in a list's statement. */
const total = 4;
/** Maximum count up to which an estimate is exact. */
const counted = 10_000;

/**
 * The column of a list's statement that has the number of records on all pages.
 * @param conditions the WHERE clause of the list, without its place in the order
 */
export function totalColumn(context: OperationContext, conditions: string, counting: CountMode): string {
  const all = `from ${tableOf(context)} ${record} ${conditions}`;
  return counting === 'exact'
    ? `(select count(*) ${all})::text`
    : `(select count(*) from (select ${all} limit ${counted + 1}) _c)::text`;
}

/** The statement that estimates what an estimated count has not counted; undefined if it has counted all. */
export function estimate(
  context: OperationContext,
  plan: LinkedPlan & { readonly counting: CountMode | undefined },
  rows: TextRows,
): Statement | undefined {
  if (plan.counting !== 'estimated' || Number(rows[0]?.[total]) <= counted) return undefined;
  const { after: _, ...sort } = plan.asked.sort;
  // The statement has no OFFSET. PostgreSQL cannot infer the type of a parameter that the text does not use.
  const page = { ...plan.asked.page, depth: 'first' } as const;
  const asked = { ...plan.asked, sort, page };
  // Unnamed, because it is rare. Its first row has the planner's estimate.
  const { bind } = prepare<LinkedPlan>('', 'scan', ($) => {
    const { where = [] } = queryClauses(context.definition, asked, $);
    return `explain select from ${tableOf(context)} ${record} where ${[visibleSql($), ...where].join(' and ')}`;
  });
  return bind(plan);
}

/** Returns the number of records on all pages as decimal text, or undefined if it was not requested. */
export function totalOf([page, plan]: TextRows): string | undefined {
  const number = page?.[total]?.toString();
  const estimated = /rows=(\d+)/.exec(String(plan?.[0]))?.[1];
  return estimated === undefined ? number : String(Math.max(Number(estimated), counted + 1));
}
