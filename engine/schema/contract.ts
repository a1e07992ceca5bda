import {
  type Database,
  type DatabaseConfig,
  migrationsTable,
  sqlState,
  withAdvisoryLockIfFree,
} from '../database/index.ts';
import { literal, quote } from '../sql/index.ts';
import { finishMigrations } from './finish.ts';
import { migrationName } from './migration-log.ts';
import { type LiveNode, listNodes, nodesIn, nodesWithoutMigration } from './nodes.ts';
import { dropViews } from './older-models.ts';
import { stepJson } from './retype.ts';
import { runStatements } from './run.ts';
import {
  allowLongStatements,
  type Execute,
  executeIn,
  lockTimedOut,
  migrationLock,
  type SessionRow,
  takingAway,
  withDatabase,
} from './session.ts';

/**
 * Drops what migrations have kept for older nodes, as far as such nodes no longer run.
 * @returns what waits still
 */
export async function contractIn(
  database: Database,
  config: DatabaseConfig,
  execute: Execute,
  nodes: readonly LiveNode[],
): Promise<string | undefined> {
  const table = quote(migrationsTable);
  const rows = await execute(
    `select "name", "contract", "remaining" from ${table} where "contract" is not null order by "id"`,
  );
  for (const { name = '', contract, remaining: unfinished } of rows) {
    if (unfinished !== null) return `${migrationName(name)} is not done yet`;
    const [behind] = nodesWithoutMigration(nodes, migrationName(name));
    if (behind !== undefined) return `${migrationName(name)} waits for ${behind.says}`;
    await dropViews(execute, nodes);
    const statements = JSON.parse(contract ?? '[]') as string[];
    const remaining = await runStatements(database, config, execute, name, { parts: statements });
    await execute(
      `update ${table} set "contract" = ${remaining.length === 0 ? 'null' : literal(takingAway)}, "remaining" = ${stepJson(remaining)} where "name" = ${literal(name)}`,
    );
  }
  return undefined;
}

/**
 * Does the waiting part of migrations as soon as every node that runs knows them: from time to time, while a node runs.
 * @returns whether something was done
 */
export async function contract(config: DatabaseConfig, { orm }: Pick<Database, 'orm'>): Promise<boolean> {
  const execute = (sql: string) => orm.em.fork().getConnection().execute<SessionRow[]>(sql, [], 'all');
  const waiting = await execute(
    `select "name", to_jsonb(m) ->> 'contract' as contract from ${quote(migrationsTable)} m where to_jsonb(m) ->> 'contract' is not null`,
  );
  if (waiting.length === 0) return false;
  const nodes = await listNodes(execute);
  if (waiting.some(({ name }) => nodesWithoutMigration(nodes, migrationName(name)).length > 0)) return false;
  return withDatabase(config, { resources: [], tables: [] }, async (database) => {
    if (waiting.some((row) => row.contract === takingAway)) {
      // Another node is running it, or has stopped.
      if ((await withAdvisoryLockIfFree(database.orm, migrationLock, async () => true)) === undefined)
        return false;
      await finishMigrations(database, config);
    }
    const done = await withAdvisoryLockIfFree(database.orm, migrationLock, async (em) => {
      await allowLongStatements(em);
      return contractIn(database, config, executeIn(em), await nodesIn(executeIn(em)));
    }).catch((cause: unknown) => {
      if (sqlState((cause as Error).cause ?? cause) !== lockTimedOut) throw cause;
    });
    if (done === undefined || done.result !== undefined) return false;
    await finishMigrations(database, config);
    return true;
  });
}
