// Watches what reaches the database, without a change of the engine.
import type { Statement } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';

/** Statements for records that a request makes, in their order. */
export async function recordStatements(
  database: Database,
  work: () => Promise<unknown>,
): Promise<readonly Statement[]> {
  const made: Statement[] = [];
  await replacingRun(
    database,
    (run) => (statement) => {
      made.push(statement);
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
  const { run } = database;
  Object.assign(database, { run: replace(run) });
  try {
    await work();
  } finally {
    Object.assign(database, { run });
  }
}

type Method = (...parameters: unknown[]) => unknown;

/** How many times the database is used by whatever part of the service: connections taken, or messages sent. */
export async function countUses(database: Database, work: () => Promise<unknown>): Promise<number> {
  const client = (await database.orm.em.getConnection().getNativeClient()) as Record<string, Method>;
  // Every query of a pg Pool takes a connection; every message to PGlite goes through this method.
  const name = database.kind === 'postgresql' ? 'connect' : 'execProtocolRaw';
  const original = client[name] as Method;
  let uses = 0;
  client[name] = function (...parameters) {
    uses++;
    return original.apply(this, parameters);
  };
  try {
    await work();
    return uses;
  } finally {
    client[name] = original;
  }
}
