import { type Database, rejectingRule } from '../database/index.ts';
import { errors, type HttpError } from '../errors.ts';
import { tryStatements } from '../tables/index.ts';
import type { OperationPlan, Parts } from './operation.ts';
import { isRejection } from './rejections.ts';

/**
 * Finds the items of a batch that an operator's constraint or trigger rejects, by writing ever smaller parts of the
 * batch in a transaction that is rolled back: at most two statements per item. A query cannot find them, because such
 * a rule can be anything.
 * @returns the errors by item number; empty if each item is accepted on its own
 */
export function rejectedItems<P extends OperationPlan>(
  database: Database,
  plan: P,
  { numbers, statement }: Parts<P>,
): Promise<ReadonlyMap<number, HttpError>> {
  const failures = new Map<number, HttpError>();
  const reported = new Set<string>();
  return database.admission.run('batch', plan.organization, () =>
    tryStatements(database, async (attempt) => {
      const search = async (part: readonly number[]): Promise<void> => {
        const cause = await attempt(await statement(plan, part));
        if (cause === undefined) return;
        const rule = rejectingRule(cause);
        if (rule === undefined && !isRejection(cause)) throw cause;
        if (part.length > 1) {
          const half = Math.ceil(part.length / 2);
          await search(part.slice(0, half));
          await search(part.slice(half));
          return;
        }
        const [number] = part;
        // Other rejections are explained when the batch is written without these items.
        if (rule === undefined || number === undefined) return;
        failures.set(number, errors.rejectedByDatabase(rule, cause));
        if (!reported.has(rule)) database.reportRejection?.(plan.caller.requestId, cause);
        reported.add(rule);
      };
      await search(numbers(plan));
      return failures;
    }),
  );
}
