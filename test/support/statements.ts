// Watches what reaches the database, without a change of the engine.
import type { Database, Runnable } from '../../engine/database/database.ts';

/** What runs by the clock: who asks, how far the change feed can be read, and whether subscriptions have news. */
const ofTheInstance = ['api_key', 'ledger_lag', 'events_look'];

/** Statements for records that a request makes, in their order. */
export async function recordStatements(
  database: Database,
  work: () => Promise<unknown>,
): Promise<readonly Runnable[]> {
  const made: Runnable[] = [];
  await replacingRun(
    database,
    (run) => (statement) => {
      if (!ofTheInstance.includes(statement.name)) made.push(statement);
      return run(statement);
    },
    work,
  );
  return made;
}

/** Does some work while statements for records are run by something else. */
export async function replacingRun(
  database: Database,
  replace: (run: Database['run']) => Database['run'],
  work: () => Promise<unknown>,
): Promise<void> {
  const { run, pipelines } = database;
  Object.assign(database, { run: replace(run), pipelines: undefined });
  try {
    await work();
  } finally {
    Object.assign(database, { run, pipelines });
  }
}
