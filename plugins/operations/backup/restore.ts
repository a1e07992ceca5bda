import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import { createFolder, type Database } from '../../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../../engine/effects/index.ts';
import { pluralize, UserError } from '../../../engine/errors.ts';
import {
  applyPending,
  migrationNames,
  readMigrationLog,
  withDatabase,
} from '../../../engine/schema/index.ts';
import { quote } from '../../../engine/sql/index.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { revokeAllKeys } from '../../access/api-keys/index.ts';
import { endSessionsOfAllUsers } from '../../access/identity/index.ts';
import { cancelAllInvites } from '../../access/members/index.ts';
import { renewEpoch } from '../../change-log/index.ts';
import { type BackupConfig, fingerprints, noModel, tablesIn } from './dump.ts';
import { type BackupLines, Counter, incompleteBackup, type Manifest } from './file.ts';
import { backupColumns, backupSequences, insertRows, removeTimeouts, rowsOf, run } from './rows.ts';
import { compare, verifyBackup } from './walk.ts';

/** Configuration required for a restore. */
export type RestoreConfig = BackupConfig & AuditConfig;

/** Options that determine which credentials in the backup remain valid. */
export interface RestoreOptions {
  readonly keys: 'disable' | 'keep';
  /** Whether sessions, reset links and open invitations are invalidated or kept. */
  readonly logins: 'end' | 'keep';
}

/** A restore's result. */
export interface RestoreResult {
  readonly tables: number;
  readonly rows: number;
  /** Names of the migrations newer than the backup that the restore applied. */
  readonly migrated: readonly string[];
  readonly ended: { readonly keys: number; readonly sessions: number; readonly invites: number };
  /** Messages to show to the operator. */
  readonly notes: readonly string[];
}

/**
 * Restores a backup into an empty database and compares every row. Restores either the whole backup or
 * nothing.
 * @param open opens the backup and returns its lines
 * @throws UserError if the database is not empty, or the backup is incomplete or has unknown migrations
 */
export async function restoreInto(
  config: RestoreConfig,
  manifest: Manifest,
  open: () => BackupLines,
  options: RestoreOptions,
): Promise<RestoreResult> {
  assertMigrations(config, manifest);
  return withDatabase(config, noModel, async (database) => {
    await assertRestorable(config, database, manifest);
    const storeSecret = secretWriter(config, manifest);
    await applyPending(database, config, (name) => manifest.migrations.includes(name));
    const result = await transaction(database, async (tables) => {
      const rows = await load(tables, config, open);
      const ended = await revokeCredentials(tables, config, options);
      await renewEpoch(tables, config.audit);
      storeSecret();
      return { rows, ended };
    });
    const migrated = await applyPending(database, config);
    // New tables do not have statistics yet, so the planner would choose bad plans for the first statements.
    await run(tablesOf(database), 'analyze');
    return {
      ...result,
      tables: manifest.tables.length,
      migrated,
      notes: notesOf(config, manifest),
    };
  });
}

/** Checks that this version has every migration in the backup. @throws UserError if it does not */
function assertMigrations(config: RestoreConfig, { migrations }: Manifest): void {
  const names = migrationNames(config);
  const missing = migrations.filter((name) => !names.includes(name));
  if (missing.length === 0) return;
  throw new UserError(
    `the backup has ${pluralize(missing.length, 'migration')} that this version does not have, for example ${missing.at(-1)}. Restore it with the version and definitions it was created with.`,
  );
}

/**
 * Checks that a backup can be restored into the database.
 * @throws UserError if the database has rows, or migrations that the backup does not have
 */
async function assertRestorable(
  config: RestoreConfig,
  database: Database,
  manifest: Manifest,
): Promise<void> {
  const { applied } = await readMigrationLog(database, config);
  await assertEmpty(tablesOf(database), tablesIn(config, applied));
  if (applied.some((name) => !manifest.migrations.includes(name))) {
    throw new UserError(
      'the database has migrations newer than the backup. Restore into a new database, which is then migrated.',
    );
  }
}

/** Checks that tables are empty. @throws UserError if any table has rows */
async function assertEmpty(tables: Tables, names: readonly string[]): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select relname::text as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
      and relname = any(${names}::text[]) order by 1`.execute(tables);
  for (const { name } of rows) {
    const existing = await run(tables, `select from ${quote(name)} limit 1`);
    if (existing.length > 0) {
      throw new UserError(
        `the database is not empty (${name} has rows). Restore into a new database or another DATA_DIR.`,
      );
    }
  }
}

interface ForeignKey {
  readonly table: string;
  readonly name: string;
  readonly definition: string;
}

/** Loads all rows in a transaction and compares them with the backup. @returns the number of loaded rows */
async function load(tables: Tables, config: RestoreConfig, open: () => BackupLines): Promise<number> {
  await removeTimeouts(tables);
  let keys: ForeignKey[] = [];
  let triggers: Trigger[] = [];
  const { manifest, end } = await verifyBackup(open(), async ({ migrations, tables: storedTables }) => {
    const names = tablesIn(config, migrations);
    const ownTables = await backupColumns(tables, names);
    if (JSON.stringify(ownTables) !== JSON.stringify(storedTables)) {
      throw new UserError(
        'the tables differ from the backup’s migrations because a migration was changed after it was applied',
      );
    }
    await run(tables, `lock table ${names.map(quote).join(', ')} in access exclusive mode`);
    await assertEmpty(tables, names);
    keys = await dropForeignKeys(tables, names);
    triggers = await disableTriggers(tables, names);
    const byName = new Map(storedTables.map((table) => [table.name, table]));
    return {
      rows: async (name, rows) => {
        const table = byName.get(name);
        if (table === undefined) throw incompleteBackup(`it does not describe the table ${name}`);
        await insertRows(tables, table, rows);
      },
    };
  });
  const counts = new Map<string, Counter['count']>();
  for (const table of manifest.tables) {
    const counter = new Counter();
    for await (const rows of rowsOf(tables, table)) for (const row of rows) counter.add(row);
    counts.set(table.name, counter.count);
  }
  compare(end.tables, counts, 'the database');
  for (const { table, name } of triggers) {
    await run(tables, `alter table ${table} enable trigger ${quote(name)}`);
  }
  for (const { table, name, definition } of keys) {
    await run(tables, `alter table ${table} add constraint ${quote(name)} ${definition}`);
  }
  const names = manifest.tables.map(({ name }) => name);
  for (const [column, sequence] of await backupSequences(tables, names)) {
    const [last = '1', isUsed = false] = end.sequences[column] ?? [];
    await run(tables, `select setval($1::regclass, $2::bigint, ${isUsed})`, sequence, last);
  }
  return Object.values(end.tables).reduce((sum, { rows }) => sum + rows, 0);
}

/**
 * Drops foreign keys so that rows can be loaded in any order.
 * @returns the foreign keys, which the caller must recreate
 */
async function dropForeignKeys(tables: Tables, names: readonly string[]): Promise<ForeignKey[]> {
  const { rows } = await sql<ForeignKey>`
    select conrelid::regclass::text as table, conname::text as name, pg_get_constraintdef(k.oid) as definition
    from pg_constraint k join pg_class c on c.oid = k.conrelid
    where k.contype = 'f' and k.conparentid = 0 and c.relnamespace = current_schema()::regnamespace and c.relname = any(${names}::text[])`.execute(
    tables,
  );
  for (const { table, name } of rows)
    await run(tables, `alter table ${table} drop constraint ${quote(name)}`);
  return rows;
}

interface Trigger {
  readonly table: string;
  readonly name: string;
}

/**
 * Disables triggers, because the backup also contains the rows that they write.
 * @returns the triggers, which the caller must enable again
 */
async function disableTriggers(tables: Tables, names: readonly string[]): Promise<Trigger[]> {
  const { rows } = await sql<Trigger>`
    select tgrelid::regclass::text as table, tgname::text as name
    from pg_trigger g join pg_class c on c.oid = g.tgrelid
    where not g.tgisinternal and g.tgenabled = 'O' and c.relnamespace = current_schema()::regnamespace and c.relname = any(${names}::text[])`.execute(
    tables,
  );
  for (const { table, name } of rows)
    await run(tables, `alter table ${table} disable trigger ${quote(name)}`);
  return rows;
}

async function revokeCredentials(
  tables: Tables,
  config: RestoreConfig,
  { keys, logins }: RestoreOptions,
): Promise<RestoreResult['ended']> {
  return {
    keys: keys === 'disable' ? await revokeAllKeys(tables, commandLine(config)) : 0,
    sessions: logins === 'end' ? await endSessionsOfAllUsers(tables) : 0,
    invites: logins === 'end' ? await cancelAllInvites(tables) : 0,
  };
}

/**
 * Returns a function that stores the backup's generated secret in the data folder.
 * @throws UserError if the folder contains another secret
 */
function secretWriter(
  { authSecrets, dataFolder }: RestoreConfig,
  { auth_secret: secret }: Manifest,
): () => void {
  const file = join(dataFolder, 'auth-secret');
  if (secret === undefined || authSecrets.length > 0) return () => {};
  if (!existsSync(file)) {
    return () => {
      createFolder(dataFolder, 0o700);
      writeFileSync(file, secret, { flag: 'wx', mode: 0o600 });
    };
  }
  if (readFileSync(file, 'utf8').trim() === secret) return () => {};
  throw new UserError(
    `${file} contains a different secret than the backup, which needs its own to decrypt stored secrets. Move the file away, or choose another DATA_DIR.`,
  );
}

function notesOf(config: RestoreConfig, { secrets }: Manifest): string[] {
  if (fingerprints(config).some((name) => secrets.includes(name))) return [];
  return [
    'AUTH_SECRETS contains none of the secrets used when the backup was created. The stored secrets of integrations and subscriptions cannot be decrypted until you add one of them',
  ];
}
