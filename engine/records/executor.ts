import type { Database, StatementRunner } from '../database/index.ts';
import type { Statement } from '../sql/index.ts';
import type { TransactionReservation } from './record-limits.ts';

/** Runs a statement and rolls it back. @returns its error, if any, even from a deferred constraint */
export type Attempt = (statement: Statement) => Promise<unknown>;

/** Runs the statements of operations within a transaction. A failed statement does not end the transaction. */
export interface TransactionExecutor extends Pick<Database, 'run' | 'reportRejection'> {
  /** Reserves capacity for records before they are created. @throws HttpError 403 if the organization's limit would be exceeded */
  readonly reserve: TransactionReservation['reserve'];
  /** Runs a statement without a savepoint. If it fails, the transaction can only be rolled back. */
  readonly runWithoutSavepoint: StatementRunner;
  /** Runs work whose statements are undone if it fails. */
  readonly nested: <T>(work: () => Promise<T>) => Promise<T>;
  /** Calls `work` with a function that tries individual statements, each of which is rolled back. */
  readonly tryStatements: <T>(work: (attempt: Attempt) => Promise<T>) => Promise<T>;
}

/** Runs the statements of operations. */
export type Executor = Database | TransactionExecutor;

/**
 * Returns an executor for a transaction.
 * @param run runs a statement in the transaction
 * @param database the database to which rejections are reported
 * @param reserve reserves capacity for records
 */
export function transactionExecutor(
  run: StatementRunner,
  { reportRejection }: Pick<Database, 'reportRejection'>,
  reserve: TransactionReservation['reserve'],
): TransactionExecutor {
  const command = (text: string) => run({ name: '', text, values: [] });
  const undo = async () => {
    // If the connection was lost, only the statement's error explains it.
    await command('rollback to savepoint _statement').catch(() => {});
  };
  return {
    ...(reportRejection && { reportRejection }),
    reserve,
    run: async (statement) => {
      await command('savepoint _statement');
      try {
        const rows = await run(statement);
        await command('release savepoint _statement');
        return rows;
      } catch (cause) {
        await undo();
        throw cause;
      }
    },
    runWithoutSavepoint: run,
    nested: async (work) => {
      await command('savepoint _nested');
      try {
        const result = await work();
        await command('release savepoint _nested');
        return result;
      } catch (cause) {
        await command('rollback to savepoint _nested').catch(() => {});
        throw cause;
      }
    },
    tryStatements: (work) =>
      work(async (statement) => {
        await command('savepoint _statement');
        try {
          await run(statement);
          await command('set constraints all immediate');
          return undefined;
        } catch (cause) {
          return cause;
        } finally {
          await undo();
        }
      }),
  };
}
