// Observes the statements that reach the database, without changing the engine.
import type { Database, Primary, Runnable, Server } from '../../engine/database/database.ts';
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

/** A node of a plan that PostgreSQL ran. */
export interface PlanNode {
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** Runs a statement and returns the plan that PostgreSQL used. */
export async function planOf(database: Database, { text, values }: Runnable): Promise<PlanNode> {
  const explain = `explain (analyze, buffers, format json) ${text}`;
  const rows = await database.run({ name: '', text: explain, values });
  const [{ Plan: plan }] = (typeof rows[0]?.[0] === 'string' ? JSON.parse(rows[0][0]) : rows.flat()[0]) as [
    { Plan: PlanNode },
  ];
  return plan;
}

/** Replaces the function that runs statements on the primary, for the duration of the work. */
export async function replacingRun(
  database: Database,
  replace: (run: Server['run']) => Server['run'],
  work: () => Promise<unknown>,
): Promise<void> {
  const { primary } = partsOf(database);
  const { run, pipelines, transaction } = primary;
  const replaced: Primary['transaction'] = (inTransaction) =>
    transaction((runInside) => inTransaction(replace(runInside)));
  Object.assign(primary, { run: replace(run), pipelines: undefined, transaction: replaced });
  try {
    await work();
  } finally {
    Object.assign(primary, { run, pipelines, transaction });
  }
}
