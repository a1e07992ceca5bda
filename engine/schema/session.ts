import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type Database, type DatabaseConfig, openDatabase } from '../database/index.ts';
import { entitiesOf, type Model } from './model.ts';

/** Any number that no other program on the same database is likely to use. */
export const migrationLock = 7_263_140_559n;

/** SQLSTATE of a statement that waited too long for a lock. */
export const lockTimedOut = '55P03';
/** How long a statement waits for a lock: what comes after it waits as long. Then all begins again, so often. */
const lockTimeoutMs = 400;
export const [lockTries, lockPauseMs] = [60, 1000];

/**
 * Opens the database for work on its tables.
 * @param statementTimeoutMs how long a statement may take; 0: any time
 */
export async function withDatabase<T>(
  config: DatabaseConfig,
  model: Model,
  work: (database: Database) => Promise<T>,
  statementTimeoutMs = 0,
): Promise<T> {
  const database = await openDatabase(
    // Concurrent index builds wait without blocking others. Other statements set their own lock timeout.
    { ...config, statementTimeoutMs, lockTimeoutMs: 0, pool: 2, replicaAddresses: [] },
    entitiesOf(model),
  );
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

type Executing = Pick<SqlEntityManager, 'getConnection' | 'getTransactionContext'>;
export type Execute = (sql: string) => Promise<SessionRow[]>;

export const executeIn = (em: Executing) => (sql: string) =>
  em.getConnection().execute<SessionRow[]>(sql, [], 'all', em.getTransactionContext());

/** A row of the table of migrations. */
export interface SessionRow extends Readonly<Record<string, unknown>> {
  readonly name?: string;
  readonly checksum?: string | null;
  /** JSON of the statements that are left. */
  readonly remaining?: string | null;
  /** JSON of the statements that wait until no node runs that does not know the migration. */
  readonly contract?: string | null;
}

export async function removeStatementTimeout(em: Executing): Promise<void> {
  await executeIn(em)('set local statement_timeout = 0');
  await executeIn(em)('set local idle_in_transaction_session_timeout = 0');
}

/** For a migration, which may run for any time, but not wait long for a lock: all other statements would queue behind it. */
export async function allowLongStatements(em: Executing): Promise<void> {
  await removeStatementTimeout(em);
  await executeIn(em)(`set local lock_timeout = ${lockTimeoutMs}`);
}

/** In place of the statements that waited, once they have run and only what takes long remains of them. */
export const takingAway = '[ ]';

export const hasRows = async (execute: Execute, sql: string): Promise<boolean> =>
  (await execute(sql)).length > 0;

/** Runs statements in a transaction that does not wait long for a lock. */
export const withLockTimeout = <T>(
  em: SqlEntityManager,
  work: (execute: Execute) => Promise<T>,
): Promise<T> =>
  em.transactional(async (inner) => {
    await executeIn(inner)(`set local lock_timeout = ${lockTimeoutMs}`);
    return work(executeIn(inner));
  });
