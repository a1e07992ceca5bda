import { join } from 'node:path';
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
import { checksumOf, migrationNames, readLedger, statementsIn } from './ledger.ts';
import { entitiesOf, type Model } from './model.ts';
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

/** Opens the database for work on its tables, which may take any time. */
export async function withDatabase<T>(
  config: DatabaseConfig,
  model: Model,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(
    { ...config, statementTimeoutMs: 0, pool: 2, replicaAddresses: [] },
    entitiesOf(model),
  );
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

/**
 * As {@link migrate}, on a database that is open already.
 * @throws UserError naming the file, the statement and what stands in its way; then nothing is applied
 */
export async function applyPending(database: Database, config: DatabaseConfig): Promise<string[]> {
  const { kind, orm } = database;
  await orm.migrator.getStorage().ensureTable?.();
  const run = (em: SqlEntityManager) => applyIn(database, config, em);
  if (kind === 'embedded') return orm.em.fork().transactional((em) => run(em as SqlEntityManager));
  return exclusively(orm, migrationLock, async (em) => {
    // A migration may run for any time, but not wait long for a lock: all other statements would queue behind it.
    await executeIn(em)('set local statement_timeout = 0');
    await executeIn(em)('set local idle_in_transaction_session_timeout = 0');
    await executeIn(em)('set local lock_timeout = 3000');
    return run(em);
  });
}

const executeIn = (em: SqlEntityManager) => (sql: string) =>
  em.getConnection().execute<{ name?: string }[]>(sql, [], 'all', em.getTransactionContext());

/** Applies the pending migrations in a transaction, and stores what each does, so that a change of its file is noticed. */
async function applyIn(database: Database, config: DatabaseConfig, em: SqlEntityManager): Promise<string[]> {
  const execute = executeIn(em);
  const table = quote(migrationsTable);
  const applied: string[] = [];
  const columns = await execute(
    `select attname as name from pg_attribute where attrelid = '${table}'::regclass and attname = 'checksum'`,
  );
  if (columns.length === 0) await execute(`alter table ${table} add column "checksum" text`);
  const unknown = new Map(
    (await execute(`select "name", "checksum" from ${table}`)).map((row) => [
      String(row.name).replace(/\.[jt]s$/, ''),
      (row as { checksum?: string | null }).checksum === null,
    ]),
  );
  for (const name of migrationNames(config)) {
    if (unknown.get(name) === false) continue;
    const statements = await statementsIn(database, config, name);
    const checksum = literal(checksumOf(statements));
    if (unknown.get(name) === true) {
      await execute(`update ${table} set "checksum" = ${checksum} where "name" = ${literal(name)}`);
      continue;
    }
    for (const statement of statements) {
      await execute(statement).catch((cause: unknown) => {
        throw failureOf(cause, join(config.migrations, name), statement) ?? cause;
      });
    }
    await execute(`insert into ${table} ("name", "checksum") values (${literal(name)}, ${checksum})`);
    applied.push(name);
  }
  return applied;
}

/** Characters of a statement that a message repeats. */
const maxStatement = 200;
const nothing = 'Nothing was migrated.';

/** Why a migration failed, in words; undefined if the database did not refuse a statement. */
function failureOf(cause: unknown, file: string, statement: string): UserError | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { detail, message, cause: inner } = cause as { detail?: unknown; message?: unknown; cause?: unknown };
  const state = sqlState(cause);
  if (state === undefined) return failureOf(inner, file, statement);
  const index = violatedConstraint(cause);
  if (index !== undefined && typeof detail === 'string') {
    const values = detail.slice(detail.indexOf(')=(') + 2).replace(/\s+/g, ' ');
    return new UserError(
      `the unique index "${index}" cannot be made, because records have the same values: (organization, …)=${values} ${nothing} Change or delete these records, then migrate again (${file})`,
      { cause },
    );
  }
  // What follows the first line is said by `detail`.
  const why = String(message).split('\n')[0] ?? '';
  if (state === refusedState) {
    const name = why.split(' ')[0];
    return new UserError(
      `${why}. ${nothing} Change these records, or write ${file} again with --using ${name}=…, SQL of a text for them`,
      { cause },
    );
  }
  const shown = statement.replace(/\s+/g, ' ').replace(/;$/, '').slice(0, maxStatement);
  const more = typeof detail === 'string' ? ` ${detail}` : '';
  return new UserError(
    `${file} failed: ${why}.${more} In: ${shown}. ${nothing} Mend what stands in its way, then migrate again`,
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
