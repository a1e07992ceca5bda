import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type Database,
  type DatabaseConfig,
  exclusively,
  ifFree,
  migrationsTable,
  openDatabase,
  sqlState,
  violatedConstraint,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { literal, quote } from '../sql/index.ts';
import { expand } from './expand.ts';
import {
  checksumOf,
  migrationName,
  migrationNames,
  migrationPath,
  readLedger,
  statementsIn,
} from './ledger.ts';
import { entitiesOf, type Model } from './model.ts';
import { createNodesTable, type LiveNode, liveNodes, withoutMigration } from './nodes.ts';
import { OlderModels } from './older-models.ts';
import { online } from './online.ts';
import {
  fillSql,
  type Retype,
  type Step,
  type StoredColumn,
  staged,
  storedColumnsSql,
  swapStatements,
  withRetypes,
} from './retype.ts';
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
type Execute = (sql: string) => Promise<Row[]>;

const executeIn = (em: Executing) => (sql: string) =>
  em.getConnection().execute<Row[]>(sql, [], 'all', em.getTransactionContext());

/** A row of the table of migrations. */
interface Row extends Readonly<Record<string, unknown>> {
  readonly name?: string;
  readonly checksum?: string | null;
  /** JSON of the statements that are left. */
  readonly remaining?: string | null;
  /** JSON of the statements that wait until no node runs that does not know the migration. */
  readonly contract?: string | null;
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
    `select attname as name from pg_attribute where attrelid = '${table}'::regclass and attname = 'contract'`,
  );
  if (columns.length === 0) {
    await execute(
      `alter table ${table} add column if not exists "checksum" text, add column if not exists "remaining" text, add column "contract" text`,
    );
  }
  const nodes = database.kind === 'postgresql' ? await nodesIn(execute) : [];
  const waiting = await contractIn(database, config, execute, nodes);
  const older = new OlderModels();
  const rows = await execute(`select "name", "checksum" from ${table}`);
  const known = new Map(rows.map((row) => [migrationName(row.name), row]));
  for (const name of migrationNames(config)) {
    const row = known.get(name);
    if (row !== undefined && row.checksum !== null) continue;
    const statements = await statementsIn(database, config, name);
    const checksum = literal(checksumOf(statements));
    if (row !== undefined) {
      await execute(`update ${table} set "checksum" = ${checksum} where "name" = ${literal(row.name ?? '')}`);
      continue;
    }
    if (waiting !== undefined) throw new UserError(`${name} has to wait: ${waiting}`);
    const behind = withoutMigration(nodes, name);
    const parts = database.kind === 'postgresql' ? withRetypes(statements) : statements;
    const { now, contract } =
      behind.length === 0 ? { now: parts, contract: [] } : expand(parts, behind, older);
    if (older.isUsed || parts.some((part) => typeof part !== 'string')) assertSeen(name, behind, nothing);
    const remaining = await runEach(database, config, execute, name, now);
    await execute(
      `insert into ${table} ("name", "checksum", "remaining", "contract") values (${literal(name)}, ${checksum}, ${asJson(remaining)}, ${asJson(contract)})`,
    );
    applied.push(name);
  }
  return applied;
}

/** @throws UserError if one of the nodes that need views looks for none */
function assertSeen(name: string, behind: readonly LiveNode[], applied: string): void {
  const blind = behind.find(({ seesViews }) => !seesViews);
  if (blind === undefined) return;
  throw new UserError(
    `${name} gives something another name or type, and ${blind.says}: its connections share a pooler, where it cannot go on with the old ones. ${applied} Stop it, then migrate again`,
  );
}

const asJson = (steps: readonly Step[]): string =>
  steps.length === 0 ? 'null' : literal(JSON.stringify(steps));

/** Runs the statements of a migration. @returns what has to be done after the transaction */
async function runEach(
  { kind }: Pick<Database, 'kind'>,
  config: DatabaseConfig,
  execute: Execute,
  name: string,
  parts: readonly (string | Retype)[],
): Promise<Step[]> {
  const remaining: Step[] = [];
  const run = async (statement: string): Promise<void> => {
    const way = kind === 'postgresql' ? online(statement) : undefined;
    const isOnline =
      way !== undefined &&
      (await hasRows(execute, `select 'one' as name from ${quote(way.table)} limit 1`)) &&
      !(way.obstacle !== undefined && (await hasRows(execute, way.obstacle)));
    if (isOnline) remaining.push(...way.later);
    const sql = isOnline ? way.now : statement;
    if (sql === undefined) return;
    await execute(sql).catch((cause: unknown) => {
      throw failureOf(cause, migrationPath(config, name), statement) ?? cause;
    });
  };
  for (const part of parts) {
    if (typeof part === 'string') await run(part);
    else if (await hasRows(execute, `select 'one' as name from ${quote(part.table)} limit 1`)) {
      const stored = (await execute(storedColumnsSql(part.table))) as unknown as StoredColumn[];
      const { now, later } = staged(part, stored);
      for (const statement of now) await run(statement);
      remaining.push(...later);
    } else for (const statement of part.statements) await run(statement);
  }
  return remaining;
}

async function nodesIn(execute: Execute): Promise<LiveNode[]> {
  await execute(createNodesTable);
  return liveNodes(execute);
}

/**
 * Takes away what migrations have left for running nodes that did not know them, as far as no such node runs any more.
 * @returns what waits still
 */
async function contractIn(
  database: Database,
  config: DatabaseConfig,
  execute: Execute,
  nodes: readonly LiveNode[],
): Promise<string | undefined> {
  const table = quote(migrationsTable);
  const rows = await execute(
    `select "name", "contract" from ${table} where "contract" is not null order by "id"`,
  );
  for (const { name = '', contract } of rows) {
    const [behind] = withoutMigration(nodes, migrationName(name));
    if (behind !== undefined) return `${migrationName(name)} waits for ${behind.says}`;
    const schemas = await execute(
      `select nspname::text as name from pg_namespace where nspname like 'crm\\_views\\_%'`,
    );
    for (const { name: schema = '' } of schemas) await execute(`drop schema ${quote(schema)} cascade`);
    const statements = JSON.parse(contract ?? '[]') as string[];
    const remaining = await runEach(database, config, execute, name, statements);
    await execute(
      `update ${table} set "contract" = null, "remaining" = ${asJson(remaining)} where "name" = ${literal(name)}`,
    );
  }
  return undefined;
}

/**
 * Does the waiting part of migrations as soon as every node that runs knows them: from time to time, while a node runs.
 * @returns whether something was done
 */
export async function contract(config: DatabaseConfig, { run }: Pick<Database, 'run'>): Promise<boolean> {
  const waiting = await run({
    name: '',
    text: `select from ${quote(migrationsTable)} m where to_jsonb(m) ->> 'contract' is not null limit 1`,
    values: [],
  });
  if (waiting.length === 0) return false;
  return withDatabase(config, { resources: [], tables: [] }, async (database) => {
    const done = await ifFree(database.orm, migrationLock, async (em) => {
      await unlimited(em);
      await executeIn(em)(`set local lock_timeout = ${lockTimeoutMs}`);
      return contractIn(database, config, executeIn(em), await nodesIn(executeIn(em)));
    }).catch((cause: unknown) => {
      if (sqlState((cause as Error).cause ?? cause) !== lockTimedOut) throw cause;
    });
    if (done === undefined || done.result !== undefined) return false;
    await finish(database, config);
    return true;
  });
}

const hasRows = async (execute: Execute, sql: string): Promise<boolean> => (await execute(sql)).length > 0;

/** Runs statements in a transaction that does not wait long for a lock. */
const briefly = <T>(em: SqlEntityManager, work: (execute: Execute) => Promise<T>): Promise<T> =>
  em.transactional(async (inner) => {
    await executeIn(inner)(`set local lock_timeout = ${lockTimeoutMs}`);
    return work(executeIn(inner));
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
      let steps = JSON.parse(remaining ?? '[]') as Step[];
      let waits = 0;
      const stored = (left: readonly Step[]) =>
        `update ${table} set "remaining" = ${asJson(left)} where "name" = ${literal(name)}`;
      for (let [step, ...rest] = steps; step !== undefined; [step, ...rest] = steps) {
        let current = '';
        try {
          if (typeof step === 'string') {
            current = step;
            if (step.includes(' concurrently ')) await execute(step);
            else await briefly(outside, (run) => run(current));
            await execute(stored(rest));
          } else if ('swap' in step) {
            const { swap } = step;
            await briefly(outside, async (run) => {
              const behind = withoutMigration(await nodesIn(run), migrationName(name));
              assertSeen(name, behind, partly);
              const { now, contract: later } = swapStatements(swap, behind, new OlderModels());
              for (const statement of now) {
                current = statement;
                await run(statement);
              }
              await run(
                `update ${table} set "contract" = ${later.length === 0 ? '"contract"' : `(coalesce("contract", '[]')::jsonb || ${literal(JSON.stringify(later))})::text`} where "name" = ${literal(name)}`,
              );
              await run(stored(rest));
            });
          } else {
            const { fill, after } = step;
            current = fillSql(fill, after);
            rest = await briefly(outside, async (run) => {
              await run(`set local crm.filling = 'on'`);
              const [last] = await run(current);
              const next: Step[] =
                last === undefined
                  ? rest
                  : [{ fill, after: [String(last.organization), String(last.id)] }, ...rest];
              await run(stored(next));
              return next;
            });
          }
        } catch (cause) {
          if (typeof step !== 'string' && sqlState(cause) === lockTimedOut && ++waits < lockTries) {
            await delay(lockPauseMs / 10);
            continue;
          }
          throw failureOf(cause, migrationPath(config, name), current, partly) ?? cause;
        }
        steps = rest;
        waits = 0;
      }
      await execute(stored([]));
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
  const { message, cause: inner } = cause as { message?: unknown; cause?: unknown };
  const state = sqlState(cause);
  if (state === undefined) return failureOf(inner, file, statement, applied);
  const index = violatedConstraint(cause);
  if (index !== undefined) {
    return new UserError(
      `the unique index "${index}" cannot be made, because records have the same values. ${applied} Change or delete these records, then migrate again (${file})`,
      { cause },
    );
  }
  // The detail, and what is quoted of wrong data, are values of records, which may be sensitive.
  const [line = ''] = String(message).split('\n');
  const why = state.startsWith('22') ? (line.split(/: "/)[0] ?? '') : line;
  if (state === refusedState) {
    const name = why.split(' ')[0];
    const again =
      applied === nothing ? `, or write ${file} again with --using ${name}=…, SQL of a text for them` : '';
    return new UserError(
      `${why}. ${applied} Change these records${again}${again === '' ? ', then migrate again' : ''}`,
      { cause },
    );
  }
  const shown = statement.replace(/\s+/g, ' ').replace(/;$/, '').slice(0, maxStatement);
  return new UserError(
    `${file} failed: ${why}. In: ${shown}. ${applied} Mend what stands in its way, then migrate again`,
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
