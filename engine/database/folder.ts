import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { cp } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UserError } from '../errors.ts';
import { socketNames } from './socket-path.ts';

/** Names of the files and folders that the service creates in the data folder. */
const knownNames = [
  'pgdata',
  'pgdata.new',
  'lock',
  'lock-journal',
  'auth-secret',
  'snapshots',
  ...socketNames,
];

/**
 * File that marks `pgdata.new` until the first start has finished. Only a folder that contains this file is
 * ever replaced.
 */
const markFile = 'unfinished-first-start';

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Creates a folder and its missing parents. Node's recursive mkdir never returns for paths below /proc.
 * @param mode the folder's mode; its parents get the default
 */
export function createFolder(folder: string, mode = 0o777): void {
  const parent = dirname(folder);
  if (!existsSync(parent)) createFolder(parent);
  try {
    mkdirSync(folder, { mode });
  } catch (cause) {
    if (!isFolder(folder)) throw cause;
  }
}

/**
 * Removes other users' access to the service's files, and to the folder if it does not contain other files.
 * Must be called before and after a cluster is in use, because PGlite sets the modes of some files.
 */
export function restrictAccess(folder: string): void {
  const names = readdirSync(folder);
  for (const name of knownNames) if (names.includes(name)) restrictTree(join(folder, name));
  if (names.every((name) => knownNames.includes(name))) restrictMode(folder);
}

function restrictTree(path: string): void {
  const stats = lstatSync(path);
  if (stats.isSymbolicLink()) return;
  if (stats.isDirectory()) for (const name of readdirSync(path)) restrictTree(join(path, name));
  if ((stats.mode & 0o077) !== 0) restrictMode(path);
}

function restrictMode(path: string): void {
  try {
    chmodSync(path, statSync(path).mode & 0o700);
  } catch {
    // Some volumes do not support file modes or have another owner. The service starts anyway.
  }
}

/**
 * Ensures that the data folder contains a complete cluster. A new cluster is created in `pgdata.new` and
 * renamed when it is complete, so that the first start can be interrupted at any time.
 * @param initialize creates a cluster in a folder and closes it
 * @returns the cluster's folder
 * @throws UserError if the path contains anything else
 */
export async function prepareCluster(
  folder: string,
  initialize: (cluster: string) => Promise<void>,
): Promise<string> {
  const cluster = join(folder, 'pgdata');
  const unfinished = join(folder, 'pgdata.new');
  if (!existsSync(join(cluster, 'PG_VERSION'))) {
    if (!isEmpty(cluster)) throw new UserError(`${cluster} is not a database: move it away or restore it`);
    if (!isEmpty(unfinished) && !existsSync(join(unfinished, markFile))) {
      throw new UserError(`${unfinished} was not created by the first start: move it away`);
    }
    removeUnfinished(unfinished);
    createFolder(unfinished, 0o700);
    writeFileSync(join(unfinished, markFile), 'The next start replaces this folder.\n', { mode: 0o600 });
    await initialize(join(unfinished, 'cluster'));
    if (existsSync(cluster)) rmdirSync(cluster);
    renameSync(join(unfinished, 'cluster'), cluster);
  }
  // A removal that was interrupted after the mark file was deleted leaves an empty folder.
  if (existsSync(join(unfinished, markFile)) || isEmpty(unfinished)) removeUnfinished(unfinished);
  return cluster;
}

/** Copies a data folder's cluster after a checkpoint. The caller's transaction must block writes. */
export const copyCluster = (dataFolder: string, to: string): Promise<void> =>
  cp(join(dataFolder, 'pgdata'), to, { recursive: true, mode: constants.COPYFILE_FICLONE });

/**
 * Returns whether a path contains nothing that could be lost. A file in place of the folder counts as
 * content.
 */
function isEmpty(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats === undefined || (isFolder(path) && readdirSync(path).length === 0);
}

/** Removes an unfinished cluster. The mark file is removed last, so an interrupted removal can continue. */
function removeUnfinished(path: string): void {
  if (!existsSync(path)) return;
  rmSync(join(path, 'cluster'), { recursive: true, force: true });
  rmSync(join(path, markFile), { force: true });
  rmdirSync(path);
}

/** Checks whether a data folder is still the one that was opened. */
export interface FolderWatch {
  /** Checks the folder. @throws UserError if it was removed or replaced */
  readonly assertPresent: () => void;
  /** Resolves if the folder is removed or replaced; otherwise never settles. */
  readonly lost: Promise<UserError>;
  readonly isLost: () => boolean;
  readonly close: () => void;
}

/** Interval at which the folder is checked, in milliseconds. */
const intervalMs = 250;

/**
 * Watches files of an open cluster that PostgreSQL writes in place and never replaces. The files are kept
 * open because the inode of an open file is not reused. An unchanged inode number therefore means that the
 * file is the same.
 */
export function watchFolder(folder: string): FolderWatch {
  const files = ['lock', 'pgdata/PG_VERSION', 'pgdata/global/pg_control'].map((name) => {
    const path = join(folder, name);
    const descriptor = openSync(path, 'r');
    const { dev, ino } = fstatSync(descriptor);
    return { path, descriptor, dev, ino };
  });
  const isPresent = () =>
    files.every(({ path, dev, ino }) => {
      try {
        const stats = statSync(path);
        return stats.ino === ino && stats.dev === dev;
      } catch {
        return false;
      }
    });
  const { promise: lost, resolve } = Promise.withResolvers<UserError>();
  let reason: UserError | undefined;
  const check = () => {
    if (reason !== undefined || isPresent()) return;
    reason = new UserError(`the data folder ${folder} was removed or replaced while it was in use`);
    resolve(reason);
  };
  const timer = setInterval(check, intervalMs).unref();
  return {
    assertPresent: () => {
      check();
      if (reason !== undefined) throw reason;
    },
    lost,
    isLost: () => {
      check();
      return reason !== undefined;
    },
    close: () => {
      clearInterval(timer);
      for (const { descriptor } of files.splice(0)) closeSync(descriptor);
    },
  };
}
