import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Database, DatabaseConfig } from '../../../engine/database/index.ts';
import { fileReason, UserError } from '../../../engine/errors.ts';
import { readMigrationLog, tablesAfter, withDatabase } from '../../../engine/schema/index.ts';
import { inSnapshot, type Tables } from '../../../engine/tables/index.ts';
import { instanceSecrets, type SecretsConfig } from '../../access/secrets/index.ts';
import {
  type BackupEnd,
  type BackupLines,
  type Count,
  Counter,
  formatVersion,
  type Manifest,
  tableLine,
} from './file.ts';
import { backupColumns, backupSequences, removeTimeouts, rowsOf, run } from './rows.ts';

/** Configuration for backups. */
export type BackupConfig = DatabaseConfig & SecretsConfig;

/** Tables that describe files on one machine and are therefore not backed up. */
const excludedTables: readonly string[] = ['crm_backups'];

/** Returns the names of the tables that a backup contains, for a database with these migrations. */
export const tablesIn = (config: DatabaseConfig, migrations: readonly string[]): string[] =>
  tablesAfter(config, migrations).filter((name) => !excludedTables.includes(name));

/** Returns identifiers for the instance's secrets that do not reveal them. */
export const fingerprints = (config: SecretsConfig): string[] =>
  instanceSecrets(config)
    .keys('names of secrets in backups')
    .map((key) => key.toString('hex').slice(0, 16));

/**
 * Reads a consistent snapshot of the whole database while other processes continue to write.
 * @param work receives the backup's lines and must read them to the end
 * @throws UserError if a migration is unfinished
 */
export async function withDump<T>(
  database: Database,
  config: BackupConfig,
  work: (lines: BackupLines) => Promise<T>,
): Promise<T> {
  const { applied, pending, waiting } = await readMigrationLog(database, config);
  const [unfinished] = [...pending, ...waiting];
  if (unfinished !== undefined) throw new UserError(`a migration is still running: ${unfinished}`);
  return inSnapshot(database, async (tables) => {
    await removeTimeouts(tables);
    const storedTables = await backupColumns(tables, tablesIn(config, applied));
    return work(
      dumpLines(tables, {
        crm_backup: formatVersion,
        made_at: new Date().toISOString(),
        migrations: applied,
        secrets: fingerprints(config),
        ...(config.authSecrets.length === 0 && { auth_secret: instanceSecrets(config).all[0] ?? '' }),
        tables: storedTables,
      }),
    );
  });
}

async function* dumpLines(tables: Tables, manifest: Manifest): BackupLines {
  const digest = createHash('sha256');
  const add = (...lines: readonly string[]): readonly string[] => {
    for (const line of lines) digest.update(line).update('\n');
    return lines;
  };
  yield add(JSON.stringify(manifest));
  const counts: Record<string, Count> = {};
  for (const table of manifest.tables) {
    yield add(tableLine(table.name));
    const counter = new Counter();
    for await (const rows of rowsOf(tables, table)) {
      for (const row of rows) counter.add(row);
      yield add(...rows);
    }
    counts[table.name] = counter.count;
  }
  const sequences: Record<string, readonly [string, boolean]> = {};
  const names = manifest.tables.map(({ name }) => name);
  // Sequences are read after the rows, so that values assigned during the dump are not reassigned after a
  // restore.
  for (const [column, sequence] of await backupSequences(tables, names)) {
    const [state] = await run<{ last: string; used: boolean }>(
      tables,
      `select last_value::text as last, is_called as used from ${sequence}`,
    );
    if (state !== undefined) sequences[column] = [state.last, state.used];
  }
  const end: BackupEnd = { end: { tables: counts, sequences, sha256: digest.digest('hex') } };
  yield [JSON.stringify(end)];
}

/** A model without tables, for statements in which the tables are named explicitly. */
export const noModel = { resources: [], tables: [] } as const;

/** Age at which a folder is assumed to have been abandoned by a process that has exited, in milliseconds. */
const abandonedMs = 86_400_000;

/**
 * Opens a database a second time for long-running work. PostgreSQL is opened with separate connections. The embedded
 * database supports only one connection, so its files are copied while other work waits.
 */
export async function withSnapshot<T>(
  { copyTo }: Pick<Database, 'copyTo'>,
  config: BackupConfig,
  work: (snapshot: Database) => Promise<T>,
): Promise<T> {
  if (copyTo === undefined) return withDatabase(config, noModel, work);
  const dataFolder = folderIn(join(config.dataFolder, 'snapshots'));
  try {
    await copyTo(join(dataFolder, 'pgdata')).catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'ENOSPC' ? diskFullError(config.dataFolder) : cause;
    });
    return await withDatabase({ ...config, dataFolder }, noModel, work);
  } finally {
    rmSync(dataFolder, { recursive: true, force: true });
  }
}

/**
 * Creates the error for a disk with too little space for a copy of the database. The message states the
 * required space.
 */
function diskFullError(dataFolder: string): UserError {
  const cluster = join(dataFolder, 'pgdata');
  let neededBytes = 0;
  for (const entry of readdirSync(cluster, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) neededBytes += statSync(join(entry.parentPath, entry.name)).size;
  }
  const megabytes = (bytes: number) => Math.ceil(bytes / 1024 / 1024);
  return new UserError(
    `the backup needs ${megabytes(neededBytes)} MB in ${dataFolder} for a copy of the database, but not enough space is free. Free some space and try again`,
  );
}

/** Creates a temporary folder in a parent folder, and deletes abandoned folders there. */
function folderIn(parent: string): string {
  try {
    mkdirSync(parent, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(parent)) {
      const path = join(parent, name);
      if (statSync(path).mtimeMs < Date.now() - abandonedMs) rmSync(path, { recursive: true, force: true });
    }
    return mkdtempSync(join(parent, 'of-'));
  } catch (cause) {
    throw new UserError(`${parent} cannot be used: ${fileReason(cause)}`, { cause });
  }
}
