import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileReason, UserError } from '../errors.ts';
import { createFolder } from './folder.ts';

/** Releases a lock. Calling it again does nothing. */
export type Release = () => void;

/** What is said of a data folder otherwise than of any file. */
const reasons: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a folder',
  ENOENT: 'it cannot be created there',
  EACCES: 'this process may not write there',
  EPERM: 'this process may not write there',
};

/** SQLite's code for a lock that another process holds. */
const busy = 5;

/** Whether {@link lockFolder} failed because another process has the folder. */
export const isFolderLocked = (cause: unknown): boolean =>
  ((cause as Error).cause as { errcode?: number } | undefined)?.errcode === busy;

/**
 * Takes the embedded database's folder for this process. PGlite does not lock it itself, and two processes that
 * write to one folder lose acknowledged records without an error.
 *
 * The lock is an exclusive SQLite transaction on a file in the folder: the kernel holds it, and releases it when
 * the process ends, so a killed process leaves none behind.
 *
 * @throws UserError when another process has the folder, or it cannot be written
 */
export function lockFolder(folder: string): Release {
  try {
    createFolder(folder, 0o700);
    const database = new DatabaseSync(join(folder, 'lock'));
    try {
      database.exec('PRAGMA busy_timeout = 0; PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE');
    } catch (cause) {
      database.close();
      throw cause;
    }
    let held = true;
    return () => {
      if (held) database.close();
      held = false;
    };
  } catch (cause) {
    const { errcode, code } = cause as { errcode?: number; code?: string };
    throw new UserError(
      errcode === busy
        ? `the data folder ${folder} is in use by another process; stop it, or choose another with DATA_DIR`
        : `the data folder ${folder} cannot be used: ${reasons[code ?? ''] ?? fileReason(cause)}`,
      { cause },
    );
  }
}
