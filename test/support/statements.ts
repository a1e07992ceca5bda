// Observes the statements that reach the database, without changing the engine.
import type { Database, Runnable, Server } from '../../engine/database/database.ts';
import { partsOf } from './scheduled.ts';

/**
 * Periodic statements and statements for authentication: API key lookup, change feed lag, and new events for
 * subscriptions.
 */
const ofTheInstance = ['api_key', 'ledger_lag', 'events_look'];

/** Returns the statements that requests run during the work, in order. */
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

/** Replaces the function that runs statements on the primary, for the duration of the work. */
export async function replacingRun(
  database: Database,
  replace: (run: Server['run']) => Server['run'],
  work: () => Promise<unknown>,
): Promise<void> {
  const { primary } = partsOf(database);
  const { run, pipelines } = primary;
  Object.assign(primary, { run: replace(run), pipelines: undefined });
  try {
    await work();
  } finally {
    Object.assign(primary, { run, pipelines });
  }
}
