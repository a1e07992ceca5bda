// Schema: migrations from the difference between the compiled model and the one they were last made for.
// May import errors, config, compile, database, platform's tables.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EntitySchema } from '@mikro-orm/core';
import type { Pool } from 'pg';
import type { Resource } from '../compile/index.ts';
import type { Config } from '../config.ts';
import { type Database, openDatabase, openModel } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { platformEntities } from '../platform/tables.ts';

/** Every table of the instance: the platform's own and one for each resource. */
export const model = (resources: readonly Resource[]): readonly EntitySchema[] => [
  ...platformEntities,
  ...resources.map((resource) => resource.entity),
];

/** The model that the last migration was made for, so that making the next one needs no database. */
const snapshotFile = (config: Config) => join(config.migrations, 'snapshot.json');
const emptySnapshot = { namespaces: ['public'], name: 'public', tables: [], views: [], nativeEnums: {} };

/** Any number that no other program on the same database is likely to use. */
const migrationLock = 7_263_140_559;

/**
 * Applies the migrations that the database lacks. Nodes that start together wait for one another, and each
 * migration is applied once; all of a run are applied or none.
 * @returns the names of those applied
 */
export async function migrate(config: Config, resources: readonly Resource[]): Promise<string[]> {
  // A migration may take as long as it takes; its locks may not be waited for long (see lock_timeout).
  const database = await openDatabase({ ...config, statementTimeoutMs: 0, pool: 2 }, model(resources));
  try {
    return await applyPending(database);
  } finally {
    await database.close();
  }
}

/** As {@link migrate}, on a database that is open already. */
export async function applyPending({ kind, orm }: Database): Promise<string[]> {
  const up = async () => (await orm.migrator.up()).map((migration) => migration.name);
  if (kind === 'embedded') return up();
  const pool = (await orm.em.getConnection().getNativeClient()) as Pool;
  const client = await pool.connect();
  try {
    await client.query('set lock_timeout = 0');
    await client.query('select pg_advisory_lock($1)', [migrationLock]);
    return await up();
  } finally {
    // Ending the connection releases the lock, also where the query above has failed.
    client.release(true);
  }
}

/**
 * Whether the database has every migration.
 * @throws UserError saying what to run
 */
export async function assertUpToDate({ orm }: Database): Promise<void> {
  const pending = await orm.migrator.getPending();
  if (pending.length > 0) {
    const names = pending.map((migration) => migration.name).join(', ');
    throw new UserError(
      `the database is behind by ${pending.length} migration(s): ${names}. Run "npm run crm -- migrate", or start with MIGRATE_ON_START=true`,
    );
  }
}

/**
 * Whether every change of the definitions is in a migration. Needs no database.
 * @throws UserError saying what to run
 */
export async function assertMigrationsComplete(
  config: Config,
  resources: readonly Resource[],
): Promise<void> {
  const { migrator } = await openModel(config, model(resources));
  if (!existsSync(snapshotFile(config)) || (await migrator.checkSchema())) {
    throw new UserError(
      'the resource definitions have changes that no migration carries. Run "npm run crm -- migrate --create <name>", review the file, then run "npm run crm -- migrate"',
    );
  }
}

/** A migration just written. */
export interface NewMigration {
  /** undefined where the definitions have no change. */
  readonly file: string | undefined;
  readonly statements: readonly string[];
}

/**
 * Writes a migration with the changes of the definitions since the last one. Needs no database; applies nothing.
 * @param allowDataLoss write it also where it drops or converts stored values
 * @throws UserError listing the statements that would lose data
 */
export async function createMigration(
  config: Config,
  resources: readonly Resource[],
  name: string,
  allowDataLoss: boolean,
): Promise<NewMigration> {
  if (!/^[a-z0-9][a-z0-9_-]{0,60}$/i.test(name)) {
    throw new UserError(`"${name}" is no migration name: use letters, digits, "-" and "_"`);
  }
  const { migrator } = await openModel(config, model(resources), allowDataLoss);
  if (!existsSync(snapshotFile(config))) {
    mkdirSync(config.migrations, { recursive: true });
    writeFileSync(snapshotFile(config), JSON.stringify(emptySnapshot));
  }
  const { fileName, diff } = await migrator.create(undefined, false, false, name);
  return {
    file: fileName === '' ? undefined : join(config.migrations, fileName),
    statements: diff.up.filter((statement) => statement !== ''),
  };
}
