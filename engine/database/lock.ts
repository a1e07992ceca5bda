import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileReason, UserError } from '../errors.ts';
import { createFolder } from './folder.ts';

/** Releases a lock. Further calls do nothing. */
export type Release = () => void;

/** Reasons for data folder errors. They are more specific than the reasons from {@link fileReason}. */
const reasons: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a folder',
  ENOENT: 'it cannot be created there',
  EACCES: 'this process does not have write permission there',
  EPERM: 'this process does not have write permission there',
};

/** SQLite's error code for a lock held by another process. */
const busyCode = 5;

/** SQLite's error code for a full disk. */
const diskFullCode = 13;

/** SQLite's primary error codes for a damaged or foreign lock file. */
const notADatabaseCodes = [11, 26];

/**
 * Explains why SQLite cannot open the lock file. SQLite reports the same code for most causes, so the cause
 * is determined by opening the file directly.
 */
function lockReason(path: string, errcode: number): string {
  if ((errcode & 0xff) === diskFullCode) return fileReason({ code: 'ENOSPC' });
  if (notADatabaseCodes.includes(errcode & 0xff))
    return `its file "lock" was not created by the service; move it away`;
  try {
    closeSync(openSync(path, 'a'));
    return `its file system failed (SQLite code ${errcode})`;
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException;
    return code === 'EISDIR' ? 'its file "lock" is a folder' : (reasons[code] ?? fileReason(cause));
  }
}

/** Returns whether {@link lockFolder} failed because another process uses the folder. */
export const isFolderLocked = (cause: unknown): boolean =>
  ((cause as Error).cause as { errcode?: number } | undefined)?.errcode === busyCode;

/**
 * Locks the embedded database's folder for this process. PGlite does not lock it, and if two processes wrote
 * to one folder, acknowledged records would be lost without an error.
 *
 * The lock is an exclusive SQLite transaction on a file in the folder. The kernel releases it when the
 * process exits, so a killed process does not leave a lock behind.
 *
 * @throws UserError if another process uses the folder, or the folder is not writable
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
    let isHeld = true;
    return () => {
      if (isHeld) database.close();
      isHeld = false;
    };
  } catch (cause) {
    const { errcode, code } = cause as { errcode?: number; code?: string };
    throw new UserError(
      errcode === busyCode
        ? `the data folder ${folder} is in use by another process; stop that process, or choose another folder with DATA_DIR`
        : `the data folder ${folder} cannot be used: ${
            errcode === undefined
              ? (reasons[code ?? ''] ?? fileReason(cause))
              : lockReason(join(folder, 'lock'), errcode)
          }`,
      { cause },
    );
  }
}
