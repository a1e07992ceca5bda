import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

/** The port that names the socket, as in libpq: its usual one, so that `psql -h` finds it by its folder. */
export const socketPort = 5432;
/** The name of the socket. */
export const socketName = `.s.PGSQL.${socketPort}`;

/** The file of the data folder that says where the socket is, if its path in the data folder would be too long. */
const pointerName = 'socket-folder';

/** Bytes of a socket's path that every system accepts. */
const longestPath = 103;

/** Folders of sockets elsewhere, which nobody else may enter. */
const shortPrefix = 'crm-socket-';

/** The folder of the socket that belongs to a data folder. */
export function socketFolder(dataFolder: string): string {
  if (fits(dataFolder)) return dataFolder;
  try {
    const folder = readFileSync(join(dataFolder, pointerName), 'utf8');
    return basename(folder).startsWith(shortPrefix) ? folder : dataFolder;
  } catch {
    return dataFolder;
  }
}

/** A socket's path as it is prepared for a server that has the data folder. */
export interface PreparedSocket {
  readonly path: string;
  /** Removes what was made for it. */
  readonly remove: () => void;
}

/** Prepares the path of the socket, and removes what a killed server left. Call it with the data folder locked. */
export function prepareSocket(dataFolder: string): PreparedSocket {
  const before = socketFolder(dataFolder);
  rmSync(join(before, socketName), { force: true });
  if (fits(dataFolder)) return { path: join(dataFolder, socketName), remove: () => {} };
  const pointer = join(dataFolder, pointerName);
  const removeShort = (folder: string) => {
    if (folder !== dataFolder) rmSync(folder, { recursive: true, force: true });
    rmSync(pointer, { force: true });
  };
  removeShort(before);
  const folder = mkdtempSync(join(tmpdir(), shortPrefix));
  writeFileSync(pointer, folder, { mode: 0o600 });
  return { path: join(folder, socketName), remove: () => removeShort(folder) };
}

const fits = (folder: string): boolean => Buffer.byteLength(join(folder, socketName)) <= longestPath;

/** The names in a data folder that belong to its socket. */
export const socketNames: readonly string[] = [socketName, pointerName];
