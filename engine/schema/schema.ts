import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EntitySchema } from '@mikro-orm/core';
import type { Resource } from '../compile/index.ts';
import {
  type Database,
  type DatabaseConfig,
  exclusively,
  makeFolder,
  openDatabase,
  openModel,
  violatedConstraint,
} from '../database/index.ts';
import { UserError } from '../errors.ts';
import { assertNothingReplaced, assertReferencesKept, type Snapshot } from './changes.ts';

/** The tables of an instance: those of its resources and those of its modules. */
export interface Model {
  readonly resources: readonly Resource[];
  readonly tables: readonly EntitySchema[];
}

/** Every table of the instance. */
export const entitiesOf = ({ resources, tables }: Model): readonly EntitySchema[] => [
  ...tables,
  ...resources.map((resource) => resource.entity),
];

/** The model of the last migration, so that writing the next one needs no database. */
const snapshotFile = (config: DatabaseConfig) => join(config.migrations, 'snapshot.json');
const emptySnapshot = { namespaces: ['public'], name: 'public', tables: [], views: [], nativeEnums: {} };

const readSnapshot = (config: DatabaseConfig): Snapshot =>
  existsSync(snapshotFile(config))
    ? (JSON.parse(readFileSync(snapshotFile(config), 'utf8')) as Snapshot)
    : emptySnapshot;
const definitionsOf = ({ resources }: Model) => resources.map(({ definition }) => definition);

/** Any number that no other program on the same database is likely to use. */
const migrationLock = 7_263_140_559n;

/**
 * Applies the pending migrations. Nodes that start together wait for each other, and each
 * migration is applied once; all of a run are applied or none.
 * @returns the names of those applied
 */
export async function migrate(config: DatabaseConfig, model: Model): Promise<string[]> {
  const database = await openDatabase(
    { ...config, statementTimeoutMs: 0, pool: 2, replicaAddresses: [] },
    entitiesOf(model),
  );
  try {
    return await applyPending(database);
  } finally {
    await database.close();
  }
}

/**
 * As {@link migrate}, on a database that is open already.
 * @throws UserError when a field becomes unique and records have the same values of it; then nothing is applied
 */
export const applyPending = (database: Database): Promise<string[]> =>
  apply(database).catch((cause: unknown) => {
    throw duplicatesIn(cause) ?? cause;
  });

/** The error for records that stand in the way of a unique index, with an example of their values. */
function duplicatesIn(cause: unknown): UserError | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined;
  const { detail, cause: inner } = cause as { detail?: unknown; cause?: unknown };
  const index = violatedConstraint(cause);
  if (index === undefined || typeof detail !== 'string') return duplicatesIn(inner);
  const values = detail.slice(detail.indexOf(')=(') + 2).replace(/\s+/g, ' ');
  return new UserError(
    `the unique index "${index}" cannot be made, because records have the same values: (organization, …)=${values} Nothing was migrated. Change or delete these records, then migrate again`,
  );
}

async function apply({ kind, orm }: Database): Promise<string[]> {
  const names = (migrations: readonly { name: string }[]) => migrations.map(({ name }) => name);
  if (kind === 'embedded') return names(await orm.migrator.up());
  return exclusively(orm, migrationLock, async (em) => {
    const transaction = em.getTransactionContext();
    const set = (setting: string) =>
      em.getConnection().execute(`set local ${setting}`, [], 'run', transaction);
    // A migration may run for any time, but not wait long for a lock: all other statements would queue behind it.
    await set('statement_timeout = 0');
    await set('idle_in_transaction_session_timeout = 0');
    await set('lock_timeout = 3000');
    return names(await orm.migrator.up({ transaction }));
  });
}

/**
 * Whether the database has every migration.
 * @throws UserError with the command to run
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
 * Whether every change of the definitions is in a migration, and can be. Needs no database.
 * @throws UserError with the command to run, or the change that no migration can express
 */
export async function assertMigrationsComplete(config: DatabaseConfig, model: Model): Promise<void> {
  assertReferencesKept(readSnapshot(config), definitionsOf(model));
  const { migrator } = await openModel(config, entitiesOf(model));
  if (!existsSync(snapshotFile(config)) || (await migrator.checkSchema())) {
    throw new UserError(
      'the resource definitions have changes that no migration carries. Run "npm run crm -- migrate --create <name>", review the file, then run "npm run crm -- migrate"',
    );
  }
}

/** A migration just written. */
export interface NewMigration {
  /** undefined if the definitions have no change. */
  readonly file: string | undefined;
  readonly statements: readonly string[];
}

/**
 * Writes a migration with the changes of the definitions since the last one. Needs no database; applies nothing.
 * @param allowDataLoss whether it may drop or convert stored values
 * @throws UserError listing what would lose data, or a reference that would point to other records
 */
export async function createMigration(
  config: DatabaseConfig,
  model: Model,
  name: string,
  allowDataLoss: boolean,
): Promise<NewMigration> {
  if (!/^[a-z0-9][a-z0-9_-]{0,60}$/i.test(name)) {
    throw new UserError(`"${name}" is no migration name: use letters, digits, "-" and "_"`);
  }
  const snapshot = readSnapshot(config);
  assertReferencesKept(snapshot, definitionsOf(model));
  if (!allowDataLoss) assertNothingReplaced(snapshot, model.resources);
  const { migrator } = await openModel(config, entitiesOf(model), allowDataLoss);
  if (!existsSync(snapshotFile(config))) {
    makeFolder(config.migrations);
    writeFileSync(snapshotFile(config), JSON.stringify(emptySnapshot));
  }
  const { fileName, diff } = await migrator.create(undefined, false, false, name);
  return {
    file: fileName === '' ? undefined : join(config.migrations, fileName),
    statements: diff.up.filter((statement) => statement !== ''),
  };
}
