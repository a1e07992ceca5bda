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
    await copyTo(join(dataFolder, 'pgdata'));
    return await withDatabase({ ...config, dataFolder }, noModel, work);
  } finally {
    rmSync(dataFolder, { recursive: true, force: true });
  }
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
