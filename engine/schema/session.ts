import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type Database, type DatabaseConfig, openDatabase } from '../database/index.ts';
import { ignoreLocksSql } from '../records/index.ts';
import { entitiesOf, type Model } from './model.ts';

/** Advisory lock key for migrations, chosen arbitrarily so that other programs are unlikely to use it. */
export const migrationLock = 7_263_140_559n;

/** SQLSTATE for a statement that exceeded `lock_timeout`. */
export const lockTimedOut = '55P03';
/** Lock timeout, in milliseconds. It is short because other statements queue behind a waiting statement. */
const lockTimeoutMs = 250;
/** Maximum number of attempts if locks time out, and the pause between attempts in milliseconds. */
export const [lockTries, lockPauseMs] = [60, 1000];

/**
 * Opens the database, runs work on its tables, and closes the database.
 * @param statementTimeoutMs statement timeout in milliseconds; 0 disables it
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

type EntityManagerLike = Pick<SqlEntityManager, 'getConnection' | 'getTransactionContext'>;
export type Execute = (sql: string) => Promise<SessionRow[]>;

export const executeIn = (em: EntityManagerLike) => (sql: string) =>
  em.getConnection().execute<SessionRow[]>(sql, [], 'all', em.getTransactionContext());

/** A row selected in a migration session, usually from the migration log. */
export interface SessionRow extends Readonly<Record<string, unknown>> {
  readonly name?: string;
  readonly checksum?: string | null;
  /** Deferred steps that have not run yet, as JSON. */
  readonly remaining?: string | null;
  /** Changes to apply once every running node knows the migration, as JSON. */
  readonly contract?: string | null;
}

export async function removeStatementTimeout(em: EntityManagerLike): Promise<void> {
  await executeIn(em)('set local statement_timeout = 0');
  await executeIn(em)('set local idle_in_transaction_session_timeout = 0');
}

/**
 * Disables the statement timeout for a migration, and limits its lock waits so that other statements do not
 * queue behind it.
 */
export async function allowLongStatements(em: EntityManagerLike): Promise<void> {
  await removeStatementTimeout(em);
  await executeIn(em)(`set local lock_timeout = ${lockTimeoutMs}`);
}

/** Value of `contract` if its changes are complete but deferred steps remain. Intentionally not `[]`. */
export const finishingContract = '[ ]';

export const hasRows = async (execute: Execute, sql: string): Promise<boolean> =>
  (await execute(sql)).length > 0;

/** Runs statements in a transaction with a short lock timeout, which ignores the locks of records. */
export const withLockTimeout = <T>(
  em: SqlEntityManager,
  work: (execute: Execute) => Promise<T>,
): Promise<T> =>
  em.transactional(async (inner) => {
    await executeIn(inner)(`set local lock_timeout = ${lockTimeoutMs}`);
    await executeIn(inner)(ignoreLocksSql);
    return work(executeIn(inner));
  });
