import type { Runnable, StatementRunner } from './database.ts';

const command = (text: string): Runnable => ({ name: '', text, values: [] });

/**
 * Runs work in a transaction, and rolls it back if the work rejects.
 * @param run runs a statement on the transaction's connection
 */
export async function runTransaction<T>(
  run: StatementRunner,
  work: (run: StatementRunner) => Promise<T>,
): Promise<T> {
  await run(command('begin'));
  try {
    const result = await work(run);
    await run(command('commit'));
    return result;
  } catch (cause) {
    // If the connection was lost, the server has already rolled back.
    await run(command('rollback')).catch(() => {});
    throw cause;
  }
}
