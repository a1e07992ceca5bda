import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type Database,
  type DatabaseConfig,
  migrationsTable,
  sqlState,
  withAdvisoryLock,
} from '../database/index.ts';
import { pluralize, UserError } from '../errors.ts';
import { ignoreLocksSql } from '../records/index.ts';
import { literal, quote } from '../sql/index.ts';
import { afterRename, type Change } from './changes/change.ts';
import { contractIn } from './contract.ts';
import { expand } from './expand.ts';
import { assertNodesUpdated, finishMigrations } from './finish.ts';
import { nothingMigrated } from './migration-error.ts';
import { migrationName, migrationNames, readMigration, readMigrationLog } from './migration-log.ts';
import type { Model } from './model.ts';
import { nodesIn, nodesWithoutMigration } from './nodes.ts';
import { OlderModels } from './older-models.ts';
import { runChanges } from './run.ts';
import {
  allowLongStatements,
  executeIn,
  lockPauseMs,
  lockTimedOut,
  lockTries,
  migrationLock,
  withDatabase,
} from './session.ts';
import { changesTypes, stepJson, stepTables } from './steps.ts';

/**
 * Applies the pending migrations. Nodes that start at the same time wait for each other, so that each
 * migration is applied once. All migrations in a run are applied atomically.
 * @returns the names of the applied migrations
 */
export async function migrate(config: DatabaseConfig, model: Model): Promise<string[]> {
  return withDatabase(config, model, (database) => applyPending(database, config));
}

/**
 * Applies the pending migrations to an open database. On PostgreSQL, slow statements on tables with rows run
 * after the transaction, without blocking reads and writes. A migration is complete when these statements
 * have finished. The next run continues an interrupted migration.
 * @param isSelected selects the migrations to apply; all by default
 * @throws UserError with the file, statement and cause after a migration has failed and been rolled back
 */
export async function applyPending(
  database: Database,
  config: DatabaseConfig,
  isSelected = (_migration: string): boolean => true,
): Promise<string[]> {
  const { kind, orm } = database;
  if (database.isServed) return assertNonePending(database, config);
  if (kind === 'embedded') {
    // Only one connection is available, so MikroORM has to create its table before the transaction starts.
    await orm.migrator.getStorage().ensureTable?.();
    return orm.em.fork().transactional(async (em) => {
      await ensureColumns(em as SqlEntityManager);
      return applyIn(database, config, em as SqlEntityManager, isSelected);
    });
  }
  const applied = new Set<string>();
  const record = (names: readonly string[]): boolean => {
    for (const name of names) applied.add(name);
    return names.length > 0;
  };
  for (let tries = 1; ; tries++) {
    try {
      await withAdvisoryLock(orm, migrationLock, (em) => ensureTable(database, em));
      record(await finishMigrations(database, config));
      for (;;) {
        const hasApplied = record(
          await withAdvisoryLock(orm, migrationLock, async (em) => {
            await allowLongStatements(em);
            return applyIn(database, config, em, isSelected);
          }),
        );
        const hasFinished = record(await finishMigrations(database, config));
        if (!hasApplied && !hasFinished) return [...applied];
      }
    } catch (cause) {
      if (tries === lockTries || sqlState((cause as Error).cause) !== lockTimedOut) throw cause;
      await delay(lockPauseMs);
    }
  }
}

/**
 * Checks that no migrations are pending while another process serves the database, because that process needs
 * the current tables.
 * @throws UserError with the pending migrations
 */
async function assertNonePending(database: Database, config: DatabaseConfig): Promise<string[]> {
  const { pending } = await readMigrationLog(database, config);
  if (pending.length === 0) return [];
  throw new UserError(
    `${pluralize(pending.length, 'migration')} ${pending.length === 1 ? 'is' : 'are'} pending, but a running server is using the database: stop it first (${pending.join(', ')})`,
  );
}

/** Creates MikroORM's migrations table and adds the engine's columns to it. */
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
 * Applies pending migrations in a transaction. Stops after a migration that changes types, before a migration
 * that changes a table with remaining steps, and if a contract has remaining steps, because these steps have
 * to finish first. Stores a checksum of each migration's statements, so that later changes to its file are
 * detected.
 */
async function applyIn(
  database: Database,
  config: DatabaseConfig,
  em: SqlEntityManager,
  isSelected: (migration: string) => boolean,
): Promise<string[]> {
  const execute = executeIn(em);
  await execute(ignoreLocksSql);
  const table = quote(migrationsTable);
  const applied: string[] = [];
  const nodes = database.kind === 'postgresql' ? await nodesIn(execute) : [];
  const { blocker, isUnfinished } = await contractIn(database, config, execute, nodes);
  const olderModels = new OlderModels();
  const rows = await execute(`select "name", "checksum" from ${table}`);
  const rowsByName = new Map(rows.map((row) => [migrationName(row.name), row]));
  /** The contracts of the migrations applied in this transaction. */
  const contracts = new Map<string, readonly Change[]>();
  /** Tables with steps that run after the transaction. */
  const unfinishedTables = new Set<string>();
  for (const name of migrationNames(config).filter(isSelected)) {
    const row = rowsByName.get(name);
    if (row !== undefined && row.checksum !== null) continue;
    const { changes, checksum: text } = await readMigration(database, config, name);
    const checksum = literal(text);
    if (row !== undefined) {
      await execute(`update ${table} set "checksum" = ${checksum} where "name" = ${literal(row.name ?? '')}`);
      continue;
    }
    if (blocker !== undefined) throw new UserError(`${name} has to wait: ${blocker}`);
    if (isUnfinished) break;
    if (
      unfinishedTables.size > 0 &&
      changes.some(({ table }) => table === undefined || unfinishedTables.has(table))
    )
      break;
    const outdatedNodes = nodesWithoutMigration(nodes, name);
    const { now: immediate, contract } =
      outdatedNodes.length === 0
        ? { now: changes, contract: [] }
        : expand(changes, outdatedNodes, olderModels);
    if (olderModels.isUsed || changes.some(({ kind }) => kind === 'retypeColumns'))
      assertNodesUpdated(name, outdatedNodes, nothingMigrated);
    const remaining = await runChanges(database, config, execute, name, {
      changes: immediate,
      isStaged: outdatedNodes.length > 0,
    });
    // Even without statements to run later, the views for older nodes have to be dropped.
    const hasContract = contract.length > 0 || olderModels.isUsed;
    await execute(
      `insert into ${table} ("name", "checksum", "remaining", "contract") values (${literal(name)}, ${checksum}, ${stepJson(remaining)}, ${hasContract ? literal(JSON.stringify(contract)) : 'null'})`,
    );
    for (const [earlier, waiting] of contracts) {
      const renamed = waiting.map((change) => changes.reduce(afterRename, change));
      if (isDeepStrictEqual(renamed, waiting)) continue;
      contracts.set(earlier, renamed);
      await execute(
        `update ${table} set "contract" = ${literal(JSON.stringify(renamed))} where "name" = ${literal(earlier)}`,
      );
    }
    contracts.set(name, contract);
    applied.push(name);
    for (const changed of stepTables(remaining)) unfinishedTables.add(changed);
    if (changesTypes(remaining)) break;
  }
  return applied;
}

/**
 * Checks that every migration has been applied.
 * @param warn called with each additional issue, as one line
 * @throws UserError with the pending migrations and the command to run
 */
export async function assertUpToDate(
  database: Database,
  config: DatabaseConfig,
  warn: (line: string) => void,
): Promise<void> {
  const { pending, problems } = await readMigrationLog(database, config);
  if (pending.length > 0) {
    throw new UserError(
      `the database is behind by ${pluralize(pending.length, 'migration')}: ${pending.join(', ')}. Run "npm run crm -- migrate", or start with MIGRATE_ON_START=true`,
    );
  }
  for (const problem of problems) warn(problem);
}
