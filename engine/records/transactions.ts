import { type Database, isDeadlock } from '../database/index.ts';
import { HttpError } from '../errors.ts';
import { transactionExecutor } from './executor.ts';
import type { OperationPlan, TransactionSteps } from './operation.ts';
import { reserveRecords, transactionReservation } from './record-limits.ts';

/** Maximum number of attempts if writes deadlock. */
const maxDeadlocks = 4;

/** Runs work in a transaction or a single statement, and repeats it if PostgreSQL rolls it back because of a deadlock. */
export const retryingDeadlocks = <T>(work: () => Promise<T>, tries = 1): Promise<T> =>
  work().catch((cause: unknown) => {
    if (tries < maxDeadlocks && isDeadlock(cause instanceof HttpError ? cause.cause : cause))
      return retryingDeadlocks(work, tries + 1);
    throw cause;
  });

/**
 * Runs the steps of a plan in one transaction, which is repeated after a deadlock.
 * @throws the errors of the steps and of the database
 */
export async function runAtomically<T>(
  database: Database,
  { organization, caller }: Pick<OperationPlan, 'organization' | 'caller'>,
  { lane, creates, reserve, run }: TransactionSteps<T>,
): Promise<T> {
  // Counting uses another connection, so it must not run within the transaction.
  const release = await (reserve?.(database) ??
    (creates !== undefined ? reserveRecords(database, organization, creates) : undefined));
  const context = { organization, access: 'write', lane, trace: caller.trace } as const;
  return retryingDeadlocks(() => {
    const reservation = transactionReservation(database, organization, creates ?? 0);
    return database
      .atomically((statement) => run(transactionExecutor(statement, database, reservation.reserve)), context)
      .finally(reservation.release);
  }).finally(release);
}
