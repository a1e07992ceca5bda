import type { TextRows } from '../database/index.ts';
import { queryClauses } from '../query/index.ts';
import { cell, prepare, record, rowDecoder, type Statement } from '../sql/index.ts';
import type { ListPlan } from './cursors.ts';
import type { CountMode, OperationContext } from './operation.ts';
import { visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';

/** Decodes the count in a list statement's row, which follows the columns of the page. */
const decodeTotal = rowDecoder({ total: cell.count }, 4);
/** Decodes the first line of PostgreSQL's plan for a statement, which contains the estimated number of rows. */
const decodeExplained = rowDecoder({ line: cell.text });

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
  const [row] = rows;
  if (plan.counting !== 'estimated' || (row && decodeTotal(row).total <= maxExactCount)) return undefined;
  const { after: _, ...sort } = plan.parsedQuery.sort;
  // This statement does not use the offset, and PostgreSQL cannot infer the type of an unused parameter.
  const page = { ...plan.parsedQuery.page, depth: 'first' } as const;
  const parsedQuery = { ...plan.parsedQuery, sort, page };
  // The statement is unnamed because it rarely runs.
  const { bind } = prepare<ListPlan>('', 'scan', ($) => {
    const { where = [] } = queryClauses(context.definition, parsedQuery, $);
    return `explain select from ${tableOf(context)} ${record} where ${[visibleSql($), ...where].join(' and ')}`;
  });
  return bind(plan);
}

/** Returns the number of records on all pages, or undefined if it was not requested. */
export function totalOf({ counting }: ListPlan, [page, explained]: TextRows): number | undefined {
  if (explained !== undefined) {
    const [, count] = /rows=(\d+)/.exec(decodeExplained(explained).line) ?? [];
    return Math.max(Number(count), maxExactCount + 1);
  }
  return counting === undefined || page === undefined ? undefined : decodeTotal(page).total;
}
