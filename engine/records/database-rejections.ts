import { type Database, rejectingRule } from '../database/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { tryStatements } from '../tables/index.ts';
import type { BatchSplitter, OperationPlan } from './operation.ts';
import { isRejection } from './rejections.ts';

/**
 * Finds the batch items that an operator's constraint or trigger rejects, by writing ever smaller subsets of
 * the batch in a transaction that is rolled back. Runs at most two statements per item. A query cannot find
 * these items, because such a rule can be arbitrary code.
 * @returns the errors by item index; empty if each item is accepted on its own
 */
export function rejectedItems<P extends OperationPlan>(
  database: Database,
  plan: P,
  { numbers, statement }: BatchSplitter<P>,
): Promise<ReadonlyMap<number, HttpError>> {
  const failures = new Map<number, HttpError>();
  const reportedRules = new Set<string>();
  return database.admission.run('batch', plan.organization, () =>
    tryStatements(database, async (attempt) => {
      const search = async (itemNumbers: readonly number[]): Promise<void> => {
        const cause = await attempt(await statement(plan, itemNumbers));
        if (cause === undefined) return;
        const rule = rejectingRule(cause);
        if (rule === undefined && !isRejection(cause)) throw cause;
        if (itemNumbers.length > 1) {
          const half = Math.ceil(itemNumbers.length / 2);
          await search(itemNumbers.slice(0, half));
          await search(itemNumbers.slice(half));
          return;
        }
        const [number] = itemNumbers;
        // Other rejections, for example because of missing references, are explained when the batch is written
        // without the failed items.
        if (rule === undefined || number === undefined) return;
        failures.set(number, errors.rejectedByDatabase(rule, cause));
        if (!reportedRules.has(rule)) database.reportRejection?.(plan.caller.requestId, cause);
        reportedRules.add(rule);
      };
      await search(numbers(plan));
      return failures;
    }),
  );
}
