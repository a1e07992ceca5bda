import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type Database,
  type DatabaseConfig,
  migrationsTable,
  sqlState,
  withAdvisoryLock,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { contractIn } from './contract.ts';
import { expand } from './expand.ts';
import { assertNodesUpdated, finishMigrations } from './finish.ts';
import { nothingMigrated } from './migration-error.ts';
import {
  checksumOf,
  migrationName,
  migrationNames,
  readMigrationLog,
  statementsIn,
} from './migration-log.ts';
import type { Model } from './model.ts';
import { nodesIn, nodesWithoutMigration } from './nodes.ts';
import { OlderModels } from './older-models.ts';
import { stepJson, withRetypes } from './retype.ts';
import { runStatements } from './run.ts';
import {
  allowLongStatements,
  executeIn,
  lockPauseMs,
  lockTimedOut,
  lockTries,
  migrationLock,
  withDatabase,
} from './session.ts';

/**
 * Applies the pending migrations. Nodes that start together wait for each other, and each
 * migration is applied once; all of a run are applied or none.
 * @returns the names of those applied
 */
export async function migrate(config: DatabaseConfig, model: Model): Promise<string[]> {
  return withDatabase(config, model, (database) => applyPending(database, config));
}

/**
 * As {@link migrate}, on a database that is open already. On PostgreSQL, what takes long on tables with rows runs after
 * the rest, while others read and write. A migration is complete when they have finished; an interrupted run continues at the next one.
 * @param isWanted which of them to apply; all if absent
 * @throws UserError naming the file, the statement and what stands in its way; then nothing of it is applied
 */
export async function applyPending(
  database: Database,
  config: DatabaseConfig,
  isWanted = (_migration: string): boolean => true,
): Promise<string[]> {
  const { kind, orm } = database;
  if (database.isServed) return assertNonePending(database, config);
  if (kind === 'embedded') {
    // One connection: what knows nothing of the transaction comes before it.
    await orm.migrator.getStorage().ensureTable?.();
    return orm.em.fork().transactional(async (em) => {
      await ensureColumns(em as SqlEntityManager);
      return applyIn(database, config, em as SqlEntityManager, isWanted);
    });
  }
  const applied = new Set<string>();
  const add = (names: readonly string[]): boolean => {
    for (const name of names) applied.add(name);
    return names.length > 0;
  };
  for (let tries = 1; ; tries++) {
    try {
      await withAdvisoryLock(orm, migrationLock, (em) => ensureTable(database, em));
      let isMore: boolean;
      add(await finishMigrations(database, config));
      do {
        isMore = add(
          await withAdvisoryLock(orm, migrationLock, async (em) => {
            await allowLongStatements(em);
            return applyIn(database, config, em, isWanted);
          }),
        );
        add(await finishMigrations(database, config));
      } while (isMore);
      return [...applied];
    } catch (cause) {
      if (tries === lockTries || sqlState((cause as Error).cause) !== lockTimedOut) throw cause;
      await delay(lockPauseMs);
    }
  }
}

/** @throws UserError if migrations are pending: the server that has the database runs statements made for its tables */
async function assertNonePending(database: Database, config: DatabaseConfig): Promise<string[]> {
  const { pending } = await readMigrationLog(database, config);
  if (pending.length === 0) return [];
  throw new UserError(
    `${pending.length} migration(s) are pending, and a running server has the database: stop it first (${pending.join(', ')})`,
  );
}

/** Makes the table of migrations, with what we add to MikroORM's. */
async function ensureTable({ orm }: Database, em: SqlEntityManager): Promise<void> {
  await orm.migrator.getStorage().ensureTable?.();
  await ensureColumns(em);
}

async function ensureColumns(em: SqlEntityManager): Promise<void> {
  const table = quote(migrationsTable);
  const columns = await executeIn(em)(
    `select from pg_attribute where attrelid = '${table}'::regclass and attname = 'contract'`,
  );
  if (columns.length > 0) return;
  await executeIn(em)(
    `alter table ${table} add column if not exists "checksum" text, add column if not exists "remaining" text, add column "contract" text`,
  );
}

/**
 * Applies pending migrations in a transaction, up to one that changes types, which has to be finished before the next.
 * Stores what each does, so that a change of its file is noticed.
 */
async function applyIn(
  database: Database,
  config: DatabaseConfig,
  em: SqlEntityManager,
  isWanted: (migration: string) => boolean,
): Promise<string[]> {
  const execute = executeIn(em);
  const table = quote(migrationsTable);
  const applied: string[] = [];
  const nodes = database.kind === 'postgresql' ? await nodesIn(execute) : [];
  const waiting = await contractIn(database, config, execute, nodes);
  const older = new OlderModels();
  const rows = await execute(`select "name", "checksum" from ${table}`);
  const known = new Map(rows.map((row) => [migrationName(row.name), row]));
  for (const name of migrationNames(config).filter(isWanted)) {
    const row = known.get(name);
    if (row !== undefined && row.checksum !== null) continue;
    const statements = await statementsIn(database, config, name);
    const checksum = literal(checksumOf(statements));
    if (row !== undefined) {
      await execute(`update ${table} set "checksum" = ${checksum} where "name" = ${literal(row.name ?? '')}`);
      continue;
    }
    if (waiting !== undefined) throw new UserError(`${name} has to wait: ${waiting}`);
    const behind = nodesWithoutMigration(nodes, name);
    const parts = database.kind === 'postgresql' ? withRetypes(statements) : statements;
    const { now, contract } =
      behind.length === 0 ? { now: parts, contract: [] } : expand(parts, behind, older);
    if (older.isUsed || parts.some((part) => typeof part !== 'string'))
      assertNodesUpdated(name, behind, nothingMigrated);
    const remaining = await runStatements(database, config, execute, name, {
      parts: now,
      isStaged: behind.length > 0,
    });
    // At least the views have to be dropped.
    const waits = contract.length > 0 || older.isUsed;
    await execute(
      `insert into ${table} ("name", "checksum", "remaining", "contract") values (${literal(name)}, ${checksum}, ${stepJson(remaining)}, ${waits ? literal(JSON.stringify(contract)) : 'null'})`,
    );
    applied.push(name);
    if (remaining.some((step) => typeof step !== 'string')) break;
  }
  return applied;
}

/**
 * Whether the database has every migration.
 * @param tell gets a line for whatever else is not as it should be
 * @throws UserError with the command to run
 */
export async function assertUpToDate(
  database: Database,
  config: DatabaseConfig,
  tell: (line: string) => void,
): Promise<void> {
  const { pending, problems } = await readMigrationLog(database, config);
  if (pending.length > 0) {
    throw new UserError(
      `the database is behind by ${pending.length} migration(s): ${pending.join(', ')}. Run "npm run crm -- migrate", or start with MIGRATE_ON_START=true`,
    );
  }
  for (const problem of problems) tell(problem);
}
