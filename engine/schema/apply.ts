import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type Database,
  type DatabaseConfig,
  exclusively,
  migrationsTable,
  openDatabase,
  sqlState,
  violatedConstraint,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import {
  checksumOf,
  migrationName,
  migrationNames,
  migrationPath,
  readLedger,
  statementsIn,
} from './ledger.ts';
import { entitiesOf, type Model } from './model.ts';
import { online } from './online.ts';
import { refusedState } from './survival.ts';

/** Any number that no other program on the same database is likely to use. */
const migrationLock = 7_263_140_559n;

/**
 * Applies the pending migrations. Nodes that start together wait for each other, and each
 * migration is applied once; all of a run are applied or none.
 * @returns the names of those applied
 */
export async function migrate(config: DatabaseConfig, model: Model): Promise<string[]> {
  return withDatabase(config, model, (database) => applyPending(database, config));
}

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
    // What is concurrent waits for everybody and makes nobody wait; all else limits its waits for locks itself.
    { ...config, statementTimeoutMs, lockTimeoutMs: 0, pool: 2, replicaAddresses: [] },
    entitiesOf(model),
  );
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

/** SQLSTATE of a statement that waited too long for a lock. */
const lockTimedOut = '55P03';
/** How long a statement waits for a lock: what comes after it waits as long. Then all begins again, so often. */
const [lockTimeoutMs, lockTries, lockPauseMs] = [400, 60, 1000];

/**
 * As {@link migrate}, on a database that is open already. On PostgreSQL, what takes long on tables with rows runs after
 * the rest, while others read and write; a migration is done once that is, and the next run goes on where one ended.
 * @throws UserError naming the file, the statement and what stands in its way; then nothing of it is applied
 */
export async function applyPending(database: Database, config: DatabaseConfig): Promise<string[]> {
  const { kind, orm } = database;
  const ensureTable = async () => orm.migrator.getStorage().ensureTable?.();
  if (kind === 'embedded') {
    await ensureTable();
    return orm.em.fork().transactional((em) => applyIn(database, config, em as SqlEntityManager));
  }
  for (let tries = 1; ; tries++) {
    try {
      await exclusively(orm, migrationLock, ensureTable);
      const applied = await exclusively(orm, migrationLock, async (em) => {
        // A migration may run for any time, but not wait long for a lock: all other statements would queue behind it.
        await unlimited(em);
        await executeIn(em)(`set local lock_timeout = ${lockTimeoutMs}`);
        return applyIn(database, config, em);
      });
      return [...new Set([...applied, ...(await finish(database, config))])];
    } catch (cause) {
      if (tries === lockTries || sqlState((cause as Error).cause) !== lockTimedOut) throw cause;
      await delay(lockPauseMs);
    }
  }
}

type Executing = Pick<SqlEntityManager, 'getConnection' | 'getTransactionContext'>;

const executeIn = (em: Executing) => (sql: string) =>
  em.getConnection().execute<Row[]>(sql, [], 'all', em.getTransactionContext());

/** A row of the table of migrations. */
interface Row {
  readonly name?: string;
  readonly checksum?: string | null;
  /** JSON of the statements that are left. */
  readonly remaining?: string | null;
}

async function unlimited(em: Executing): Promise<void> {
  await executeIn(em)('set local statement_timeout = 0');
  await executeIn(em)('set local idle_in_transaction_session_timeout = 0');
}

/** Applies the pending migrations in a transaction, and stores what each does, so that a change of its file is noticed. */
async function applyIn(database: Database, config: DatabaseConfig, em: SqlEntityManager): Promise<string[]> {
  const execute = executeIn(em);
  const table = quote(migrationsTable);
  const applied: string[] = [];
  const columns = await execute(
    `select attname as name from pg_attribute where attrelid = '${table}'::regclass and attname = 'remaining'`,
  );
  if (columns.length === 0) {
    await execute(
      `alter table ${table} add column if not exists "checksum" text, add column "remaining" text`,
    );
  }
  const rows = await execute(`select "name", "checksum" from ${table}`);
  const known = new Map(rows.map(({ name, checksum }) => [migrationName(name), checksum]));
  for (const name of migrationNames(config)) {
    const isApplied = known.has(name);
    if (isApplied && known.get(name) !== null) continue;
    const statements = await statementsIn(database, config, name);
    const checksum = literal(checksumOf(statements));
    if (isApplied) {
      await execute(`update ${table} set "checksum" = ${checksum} where "name" = ${literal(name)}`);
      continue;
    }
    const remaining: string[] = [];
    for (const statement of statements) {
      const way = database.kind === 'postgresql' ? online(statement) : undefined;
      const isOnline =
        way !== undefined &&
        (await hasRows(execute, `select 'one' as name from ${quote(way.table)} limit 1`)) &&
        !(way.obstacle !== undefined && (await hasRows(execute, way.obstacle)));
      if (isOnline) remaining.push(...way.later);
      const sql = isOnline ? way.now : statement;
      if (sql === undefined) continue;
      await execute(sql).catch((cause: unknown) => {
        throw failureOf(cause, migrationPath(config, name), statement) ?? cause;
      });
    }
    const left = remaining.length === 0 ? 'null' : literal(JSON.stringify(remaining));
    await execute(
      `insert into ${table} ("name", "checksum", "remaining") values (${literal(name)}, ${checksum}, ${left})`,
    );
    applied.push(name);
  }
  return applied;
}

const hasRows = async (execute: (sql: string) => Promise<Row[]>, sql: string): Promise<boolean> =>
  (await execute(sql)).length > 0;

/** Runs a statement that does not wait long for a lock. */
const briefly = (em: SqlEntityManager, statement: string): Promise<unknown> =>
  em.transactional(async (inner) => {
    await executeIn(inner)(`set local lock_timeout = ${lockTimeoutMs}`);
    await executeIn(inner)(statement);
  });

/** Runs what is left of migrations, outside of transactions. @returns the names of those that had something left */
async function finish({ orm }: Database, config: DatabaseConfig): Promise<string[]> {
  return exclusively(orm, migrationLock, async (em) => {
    await unlimited(em);
    const table = quote(migrationsTable);
    // Such statements wait for every transaction that may see the table, but not for one that has no snapshot.
    const outside = orm.em.fork();
    const execute = (sql: string) => outside.getConnection().execute<Row[]>(sql, [], 'all');
    const rows = await execute(
      `select "name", "remaining" from ${table} where "remaining" is not null order by "id"`,
    );
    for (const { name = '', remaining } of rows) {
      for (const statement of JSON.parse(remaining ?? '[]') as string[]) {
        const isConcurrent = statement.includes(' concurrently ');
        const run = isConcurrent ? execute(statement) : briefly(outside, statement);
        await run.catch((cause: unknown) => {
          throw failureOf(cause, migrationPath(config, name), statement, partly) ?? cause;
        });
      }
      await execute(`update ${table} set "remaining" = null where "name" = ${literal(name)}`);
    }
    return rows.map(({ name }) => migrationName(name));
  });
}

/** Characters of a statement that a message repeats. */
const maxStatement = 200;
const nothing = 'Nothing was migrated.';
const partly = 'All but this is applied; the next run goes on with it.';

/** Why a migration failed, in words; undefined if the database did not refuse a statement. */
function failureOf(
  cause: unknown,
  file: string,
  statement: string,
  applied = nothing,
): UserError | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { detail, message, cause: inner } = cause as { detail?: unknown; message?: unknown; cause?: unknown };
  const state = sqlState(cause);
  if (state === undefined) return failureOf(inner, file, statement, applied);
  const index = violatedConstraint(cause);
  if (index !== undefined && typeof detail === 'string') {
    const values = detail.slice(detail.indexOf(')=(') + 2).replace(/\s+/g, ' ');
    return new UserError(
      `the unique index "${index}" cannot be made, because records have the same values: (organization, …)=${values} ${applied} Change or delete these records, then migrate again (${file})`,
      { cause },
    );
  }
  // What follows the first line is said by `detail`.
  const why = String(message).split('\n')[0] ?? '';
  if (state === refusedState) {
    const name = why.split(' ')[0];
    return new UserError(
      `${why}. ${applied} Change these records, or write ${file} again with --using ${name}=…, SQL of a text for them`,
      { cause },
    );
  }
  const shown = statement.replace(/\s+/g, ' ').replace(/;$/, '').slice(0, maxStatement);
  const more = typeof detail === 'string' ? ` ${detail}` : '';
  return new UserError(
    `${file} failed: ${why}.${more} In: ${shown}. ${applied} Mend what stands in its way, then migrate again`,
    { cause },
  );
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
  const { pending, problems } = await readLedger(database, config);
  if (pending.length > 0) {
    throw new UserError(
      `the database is behind by ${pending.length} migration(s): ${pending.join(', ')}. Run "npm run crm -- migrate", or start with MIGRATE_ON_START=true`,
    );
  }
  for (const problem of problems) tell(problem);
}
