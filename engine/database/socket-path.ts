import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

/** Port in the socket's name. It is libpq's default, so that `psql -h` finds the socket by its folder. */
export const socketPort = 5432;
/** Name of the socket. */
export const socketName = `.s.PGSQL.${socketPort}`;

/**
 * File in the data folder that contains the path of the socket's folder if the socket's path would otherwise
 * be too long.
 */
const pointerName = 'socket-folder';

/** Maximum socket path length that every system supports, in bytes. */
const longestPath = 103;

/** Prefix of private folders for sockets outside the data folder. */
const shortPrefix = 'crm-socket-';

/** Returns the folder that contains a data folder's socket. */
export function socketFolder(dataFolder: string): string {
  if (fits(dataFolder)) return dataFolder;
  try {
    const folder = readFileSync(join(dataFolder, pointerName), 'utf8');
    return basename(folder).startsWith(shortPrefix) ? folder : dataFolder;
  } catch {
    return dataFolder;
  }
}

/** A socket path prepared for the server that owns the data folder. */
export interface PreparedSocket {
  readonly path: string;
  /** Removes everything that was created for the socket. */
  readonly remove: () => void;
}

/**
 * Prepares the socket's path and removes files left behind by a killed server. The data folder must be
 * locked.
 */
export function prepareSocket(dataFolder: string): PreparedSocket {
  const previous = socketFolder(dataFolder);
  rmSync(join(previous, socketName), { force: true });
  if (fits(dataFolder)) return { path: join(dataFolder, socketName), remove: () => {} };
  const pointer = join(dataFolder, pointerName);
  const removeFolder = (folder: string) => {
    if (folder !== dataFolder) rmSync(folder, { recursive: true, force: true });
    rmSync(pointer, { force: true });
  };
  removeFolder(previous);
  const folder = mkdtempSync(join(tmpdir(), shortPrefix));
  writeFileSync(pointer, folder, { mode: 0o600 });
  return { path: join(folder, socketName), remove: () => removeFolder(folder) };
}

const fits = (folder: string): boolean => Buffer.byteLength(join(folder, socketName)) <= longestPath;

/** Names of the socket's files in a data folder. */
export const socketNames: readonly string[] = [socketName, pointerName];
