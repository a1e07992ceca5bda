// Database: opens PGlite or PostgreSQL through MikroORM and hands out one way to run a statement.
// May import errors, config, compile.

import { registerHooks } from 'node:module';
import { join } from 'node:path';
import type { EntitySchema, MikroORM } from '@mikro-orm/core';
import { Migrator } from '@mikro-orm/migrations';
import { PgliteDriver, MikroORM as PgliteOrm } from '@mikro-orm/pglite';
import {
  type AbstractSqlDriver,
  PostgreSqlDriver,
  MikroORM as PostgresOrm,
  type SqlEntityManager,
} from '@mikro-orm/postgresql';
import type { Pool } from 'pg';
import type { Statement } from '../compile/index.ts';
import type { Config } from '../config.ts';
import { UserError } from '../errors.ts';
import { ForwardGenerator, LosslessGenerator } from './generator.ts';
import { lockFolder } from './lock.ts';

// A folder of migrations may lie anywhere (MIGRATIONS_DIR); what its files import is this package's.
const migrationsPackage = '@mikro-orm/migrations';
const migrationsUrl = import.meta.resolve(migrationsPackage);
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === migrationsPackage
      ? { url: migrationsUrl, format: 'module', shortCircuit: true }
      : next(specifier, context),
});

/** Rows as arrays of text; every column that the compiler selects is text. */
export type Rows = readonly (readonly (string | null)[])[];

type Orm = MikroORM<AbstractSqlDriver, SqlEntityManager>;

/** An open database. */
export interface Database {
  readonly kind: 'embedded' | 'postgresql';
  /** MikroORM, for the platform's own tables and for migrations. */
  readonly orm: Orm;
  /** Runs one compiled statement, by itself, as prepared statement where the driver has them. */
  readonly run: (statement: Statement) => Promise<Rows>;
  /** Closes every connection and releases the data folder. */
  readonly close: () => Promise<void>;
}

/** How MikroORM is set up in both drivers. */
function options(entities: readonly EntitySchema[], config: Config, generator = LosslessGenerator) {
  return {
    entities: [...entities],
    extensions: [Migrator],
    discovery: { warnWhenNoEntities: false },
    // Warnings would come before the answer of a command; failures are thrown.
    logger: () => {},
    migrations: {
      path: config.migrations,
      pathTs: config.migrations,
      snapshotName: 'snapshot',
      // The snapshot is what the YAML was when the last migration was made, not what some database is.
      snapshotOnMigrate: false,
      tableName: 'crm_migrations',
      silent: true,
      generator,
    },
  };
}

/**
 * MikroORM that knows the model and the migrations and never connects.
 * @param allowDataLoss whether it may write migrations that drop or convert stored values
 */
export function openModel(
  config: Config,
  entities: readonly EntitySchema[],
  allowDataLoss = false,
): Promise<Orm> {
  return PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...options(entities, config, allowDataLoss ? ForwardGenerator : LosslessGenerator),
    driver: PostgreSqlDriver,
    dbName: 'none',
  });
}

/**
 * Opens the database that the configuration names: PostgreSQL by DATABASE_URL, else the embedded one.
 * @throws UserError in one line when it does not answer or its folder is in use
 */
export async function openDatabase(config: Config, entities: readonly EntitySchema[]): Promise<Database> {
  return config.databaseUrl === undefined
    ? openEmbedded(config, entities)
    : openPostgres(config, config.databaseUrl, entities);
}

async function openEmbedded(config: Config, entities: readonly EntitySchema[]): Promise<Database> {
  const release = await lockFolder(config.dataFolder);
  try {
    const orm = await PgliteOrm.init<PgliteDriver, SqlEntityManager<PgliteDriver>>({
      ...options(entities, config),
      driver: PgliteDriver,
      dbName: join(config.dataFolder, 'pgdata'),
    });
    const client = await orm.em.getConnection().getNativeClient();
    return {
      kind: 'embedded',
      orm,
      run: async ({ text, values }) =>
        (await client.query<(string | null)[]>(text, [...values], { rowMode: 'array' })).rows,
      close: async () => {
        await orm.close(true);
        release();
      },
    };
  } catch (cause) {
    release();
    throw new UserError(
      `the data folder ${config.dataFolder} cannot be opened: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
}

async function openPostgres(
  config: Config,
  url: string,
  entities: readonly EntitySchema[],
): Promise<Database> {
  const orm = await PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...options(entities, config),
    driver: PostgreSqlDriver,
    clientUrl: url,
    // A mistyped name must be told, not made.
    ensureDatabase: false,
    pool: { max: config.pool, idleTimeoutMillis: 30_000 },
    driverOptions: {
      connectionTimeoutMillis: config.connectTimeoutMs,
      // On the server side: a timeout of the client would leave the query running. Generic plans, because
      // planning a list takes longer than running it and each statement has one good plan.
      options: [
        `statement_timeout=${config.statementTimeoutMs}`,
        'lock_timeout=3000',
        'idle_in_transaction_session_timeout=10000',
        'plan_cache_mode=force_generic_plan',
        'datestyle=ISO',
      ]
        .map((setting) => `-c ${setting}`)
        .join(' '),
    },
  });
  let pool: Pool;
  try {
    // MikroORM connects when its client is first asked for.
    pool = await orm.em.getConnection().getNativeClient();
    await pool.query('select 1');
  } catch (cause) {
    await orm.close(true);
    throw new UserError(`the database at ${withoutSecrets(url)} does not answer: ${reason(cause)}`, {
      cause,
    });
  }
  return {
    kind: 'postgresql',
    orm,
    run: async ({ name, text, values }) =>
      (await pool.query<(string | null)[]>({ name, text, values: [...values], rowMode: 'array' })).rows,
    close: () => orm.close(true),
  };
}

const reason = (cause: unknown): string => {
  const { code, message } = cause as { code?: string; message?: string };
  return message || code || 'no reason given';
};

/** Host, port and name of a database address; a URL that cannot be read is not shown. */
function withoutSecrets(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return `${host}${pathname}`;
  } catch {
    return 'DATABASE_URL';
  }
}

export { databaseFailure, foreignKeyViolation, isDatabaseError, sqlState } from './failures.ts';
