import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from '../../../engine/database/index.ts';
import { fileReason, UserError } from '../../../engine/errors.ts';
import { withDatabase } from '../../../engine/schema/index.ts';
import type { BackupConfig } from './dump.ts';

/** A model without tables: what runs here names its own. */
export const noModel = { resources: [], tables: [] } as const;

/** What is older was left by a process that ended, in milliseconds. */
const leftMs = 86_400_000;

/**
 * Opens a database a second time for work that takes long: PostgreSQL by connections of its own, the embedded one, which has
 * only one, as a copy. Others wait as long as its files are copied.
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
      throw cause.code === 'ENOSPC' ? noRoom(config.dataFolder) : cause;
    });
    return await withDatabase({ ...config, dataFolder }, noModel, work);
  } finally {
    rmSync(dataFolder, { recursive: true, force: true });
  }
}

/** The error for a disk without room for a copy of the database; says how much is needed and free. */
function noRoom(dataFolder: string): UserError {
  const cluster = join(dataFolder, 'pgdata');
  let needed = 0;
  for (const entry of readdirSync(cluster, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) needed += statSync(join(entry.parentPath, entry.name)).size;
  }
  const megabytes = (bytes: number) => Math.ceil(bytes / 1024 / 1024);
  return new UserError(
    `the backup needs ${megabytes(needed)} MB in ${dataFolder} for a copy of the database, and too little is free there. Free some space and try again`,
  );
}

/** Makes a folder within another, and removes what was left there. */
function folderIn(parent: string): string {
  try {
    mkdirSync(parent, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(parent)) {
      const path = join(parent, name);
      if (statSync(path).mtimeMs < Date.now() - leftMs) rmSync(path, { recursive: true, force: true });
    }
    return mkdtempSync(join(parent, 'of-'));
  } catch (cause) {
    throw new UserError(`${parent} cannot be used: ${fileReason(cause)}`, { cause });
  }
}
