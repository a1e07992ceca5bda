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

/** Names in the data folder. */
const contents = ['pgdata', 'pgdata.new', 'lock', 'lock-journal', 'auth-secret', 'snapshots', ...socketNames];

/** File that marks `pgdata.new` until the first start is complete. Only a folder with this file is ever replaced. */
const mark = 'unfinished-first-start';

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/**
 * Creates a folder and its missing parents. Node's recursive mkdir never returns below /proc.
 * @param mode mode of the folder itself; its parents get the default
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
 * Removes other users' access to the service's files, and to the folder if it contains nothing else. Must be called before
 * and after a cluster is in use, because PGlite sets the modes of some files.
 */
export function restrictAccess(folder: string): void {
  const found = readdirSync(folder);
  for (const name of contents) if (found.includes(name)) tightenTree(join(folder, name));
  if (found.every((name) => contents.includes(name))) tightenOne(folder);
}

function tightenTree(path: string): void {
  const found = lstatSync(path);
  if (found.isSymbolicLink()) return;
  if (found.isDirectory()) for (const name of readdirSync(path)) tightenTree(join(path, name));
  if ((found.mode & 0o077) !== 0) tightenOne(path);
}

function tightenOne(path: string): void {
  try {
    chmodSync(path, statSync(path).mode & 0o700);
  } catch {
    // Some volumes do not support modes or have another owner; the service still starts.
  }
}

/**
 * Ensures that the data folder contains a complete cluster. A new one is initialized in `pgdata.new` and renamed when it is
 * complete, so that a first start can be interrupted at any moment.
 * @param initialise creates a cluster in a folder and closes it
 * @returns the cluster's folder
 * @throws UserError if the path contains anything else
 */
export async function prepareCluster(
  folder: string,
  initialise: (cluster: string) => Promise<void>,
): Promise<string> {
  const cluster = join(folder, 'pgdata');
  const unfinished = join(folder, 'pgdata.new');
  if (!existsSync(join(cluster, 'PG_VERSION'))) {
    if (!isEmpty(cluster)) throw new UserError(`${cluster} is not a database: move it away or restore it`);
    if (!isEmpty(unfinished) && !existsSync(join(unfinished, mark))) {
      throw new UserError(`${unfinished} was not left by a first start: move it away`);
    }
    removeUnfinished(unfinished);
    createFolder(unfinished, 0o700);
    writeFileSync(join(unfinished, mark), 'The next start replaces this folder.\n', { mode: 0o600 });
    await initialise(join(unfinished, 'cluster'));
    if (existsSync(cluster)) rmdirSync(cluster);
    renameSync(join(unfinished, 'cluster'), cluster);
  }
  // A removal interrupted after the mark was deleted leaves an empty folder.
  if (existsSync(join(unfinished, mark)) || isEmpty(unfinished)) removeUnfinished(unfinished);
  return cluster;
}

/** Copies the cluster of a data folder after a checkpoint. The caller's transaction must block writes. */
export const copyCluster = (dataFolder: string, to: string): Promise<void> =>
  cp(join(dataFolder, 'pgdata'), to, { recursive: true, mode: constants.COPYFILE_FICLONE });

/** Whether a path contains nothing that could be lost. A file instead of a folder counts as content. */
function isEmpty(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found === undefined || (isFolder(path) && readdirSync(path).length === 0);
}

/** Removes the mark last, so that an interrupted removal can continue. */
function removeUnfinished(path: string): void {
  if (!existsSync(path)) return;
  rmSync(join(path, 'cluster'), { recursive: true, force: true });
  rmSync(join(path, mark), { force: true });
  rmdirSync(path);
}

/** Checks that a data folder is still the opened one. */
export interface FolderWatch {
  /** @throws UserError if the folder was removed or replaced */
  readonly assertPresent: () => void;
  /** Resolves when the folder was removed or replaced; never otherwise. */
  readonly lost: Promise<UserError>;
  readonly isLost: () => boolean;
  readonly close: () => void;
}

/** Interval at which the folder is checked, in milliseconds. */
const intervalMs = 250;

/**
 * Watches files of an open cluster that PostgreSQL writes in place and never replaces. They are held open, because an inode
 * is not reused while it is open, so that the same number means the same file.
 */
export function watchFolder(folder: string): FolderWatch {
  const held = ['lock', 'pgdata/PG_VERSION', 'pgdata/global/pg_control'].map((name) => {
    const path = join(folder, name);
    const descriptor = openSync(path, 'r');
    const { dev, ino } = fstatSync(descriptor);
    return { path, descriptor, dev, ino };
  });
  const isPresent = () =>
    held.every(({ path, dev, ino }) => {
      try {
        const found = statSync(path);
        return found.ino === ino && found.dev === dev;
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
      for (const { descriptor } of held.splice(0)) closeSync(descriptor);
    },
  };
}
