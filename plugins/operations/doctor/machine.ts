import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type DatabaseConfig, processShare } from '../../../engine/database/index.ts';
import { fileReason } from '../../../engine/errors.ts';
import type { HttpConfig } from '../../../engine/http/index.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';

/** Minimum supported major version of Node.js. */
const minNodeVersion = 24;

/** Returns findings about a Node.js version. */
export const nodeFindings = (version: string): readonly Finding[] =>
  Number.parseInt(version, 10) >= minNodeVersion
    ? []
    : [
        {
          location: `Node ${version}`,
          message: `the service needs Node ${minNodeVersion} or newer`,
          advice: 'Start it with "npx crm" or "npm start", which use the Node that the package installs.',
        },
      ];

const node: DoctorCheck = { name: 'Node', needs: [], run: () => nodeFindings(process.versions.node) };

/** Number of files that a process and its database keep open, not counting connections. */
const otherFiles = 150;

const openFiles: DoctorCheck<{ readonly config: DatabaseConfig & HttpConfig }> = {
  name: 'open files',
  needs: ['config'],
  run: ({ config }) => {
    const { userLimits } = process.report.getReport() as {
      userLimits?: { open_files?: { soft?: number | string } };
    };
    const limit = Number(userLimits?.open_files?.soft);
    const required = processShare(config.maxConnections, config) + config.pool + otherFiles;
    // "unlimited" is not a number, and Windows does not have this limit.
    if (!(limit < required)) return [];
    return [
      {
        location: 'ulimit -n',
        message: `a process can open ${limit} files, but MAX_CONNECTIONS requires ${required}`,
        advice: `Raise the limit for the server process (LimitNOFILE in systemd), or set MAX_CONNECTIONS to ${Math.max(1, limit - config.pool - otherFiles)}.`,
      },
    ];
  },
};

const mebibyte = 1024 * 1024;
/** Free space below which a disk counts as nearly full: a share of its size, with a minimum and a maximum. */
const [minFreeBytes, maxFreeBytes, minFreeShare] = [256 * mebibyte, 5 * 1024 * mebibyte, 0.05];

/** Returns findings about the disk that contains a folder. @param size its free and total space, in bytes */
export const diskFindings = (
  folder: string,
  { free, total }: { readonly free: number; readonly total: number },
): readonly Finding[] =>
  free >= Math.max(minFreeBytes, Math.min(maxFreeBytes, total * minFreeShare))
    ? []
    : [
        {
          location: folder,
          message: `the disk is nearly full: ${Math.floor(free / mebibyte)} MiB of ${Math.floor(total / mebibyte)} MiB are free`,
          advice: 'Free some space or enlarge the disk. When it is full, writes fail but reads continue.',
        },
      ];

const disk: DoctorCheck<{ readonly config: DatabaseConfig }> = {
  name: 'disk',
  needs: ['config'],
  run: async ({ config }) => {
    let folder = config.dataFolder;
    while (!existsSync(folder)) folder = dirname(folder);
    const { bavail, blocks, bsize } = await statfs(folder);
    return diskFindings(folder, { free: bavail * bsize, total: blocks * bsize });
  },
};

/** Checks for the machine that runs the command. */
export const machineChecks = [node, openFiles, disk];

/** Paths within the data folder that other users must not be able to read. */
const contents = ['', 'pgdata', 'auth-secret'];

/** Checks that the data folder is a folder, is writable, and cannot be read by other users. */
export const dataFolder: DoctorCheck<{ readonly config: DatabaseConfig }> = {
  name: 'data folder',
  needs: ['config'],
  run: ({ config }) => {
    const folder = config.dataFolder;
    if (!existsSync(folder)) return [];
    const paths = contents.map((name) => join(folder, name)).filter((path) => existsSync(path));
    return [...usabilityFindings(folder), ...paths.flatMap(permissionFindings)];
  },
};

function usabilityFindings(folder: string): readonly Finding[] {
  const { uid } = statSync(folder);
  const processUid = process.getuid?.();
  try {
    if (!statSync(folder).isDirectory()) throw Object.assign(new Error(), { code: 'ENOTDIR' });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const reason = code === 'ENOTDIR' ? 'it is not a folder' : fileReason(cause);
    const advice = 'Set DATA_DIR to a folder that this user can write to, or change its owner with chown.';
    return [{ location: folder, message: `the data folder cannot be used: ${reason}`, advice }];
  }
  if (processUid !== 0 || uid === 0) return [];
  return [
    {
      location: folder,
      message: `it belongs to user ${uid}, and this command runs as root`,
      advice: 'Run commands as the server’s user, which cannot open files created by root.',
    },
  ];
}

function permissionFindings(path: string): readonly Finding[] {
  const mode = statSync(path).mode & 0o777;
  if ((mode & 0o077) === 0 || process.platform === 'win32') return [];
  return [
    {
      location: path,
      message: `other users on this machine can access it (mode ${mode.toString(8).padStart(4, '0')})`,
      advice: `Restrict access: chmod go= ${path}`,
    },
  ];
}
