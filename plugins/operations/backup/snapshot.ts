import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from '../../../engine/database/index.ts';
import { fileReason, UserError } from '../../../engine/errors.ts';
import { withDatabase } from '../../../engine/schema/index.ts';
import type { BackupConfig } from './dump.ts';

/** A model without tables, for statements that name their tables themselves. */
export const noModel = { resources: [], tables: [] } as const;

/** Age, in milliseconds, from which a folder counts as abandoned by a process that has exited. */
const abandonedMs = 86_400_000;

/**
 * Opens a database a second time for long-running work. PostgreSQL is opened with separate connections. The embedded
 * database supports only one connection, so its files are copied while other work waits.
 */
export async function withSnapshot<T>(
  { copyTo }: Database,
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
 * Creates the error for a disk that is too full for a copy of the database. The message states the required space.
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
