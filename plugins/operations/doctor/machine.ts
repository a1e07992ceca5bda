import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type DatabaseConfig, processShare } from '../../../engine/database/index.ts';
import type { HttpConfig } from '../../../engine/http/index.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';

/** Minimum supported major version of Node.js. */
const minNodeVersion = 24;

/** Returns the findings about a Node.js version. */
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

/** Number of files that a process and its database keep open in addition to connections. */
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
        advice: `Raise the limit where the server is started (LimitNOFILE in systemd), or set MAX_CONNECTIONS to ${Math.max(1, limit - config.pool - otherFiles)}.`,
      },
    ];
  },
};

const mebibyte = 1024 * 1024;
/**
 * Free space below which a disk counts as nearly full: a share of the disk's size, limited by a minimum and a maximum.
 */
const [minFreeBytes, maxFreeBytes, minFreeShare] = [256 * mebibyte, 5 * 1024 * mebibyte, 0.05];

const disk: DoctorCheck<{ readonly config: DatabaseConfig }> = {
  name: 'disk',
  needs: ['config'],
  run: async ({ config }) => {
    let folder = config.dataFolder;
    while (!existsSync(folder)) folder = dirname(folder);
    const { bavail, blocks, bsize } = await statfs(folder);
    const [free, total] = [bavail * bsize, blocks * bsize];
    if (free >= Math.max(minFreeBytes, Math.min(maxFreeBytes, total * minFreeShare))) return [];
    return [
      {
        location: folder,
        message: `the disk is nearly full: ${Math.floor(free / mebibyte)} MiB of ${Math.floor(total / mebibyte)} MiB are free`,
        advice: 'Free some space or enlarge the disk. When it is full, writes fail but reads continue.',
      },
    ];
  },
};

/** Checks of the machine that runs the command. */
export const machineChecks = [node, openFiles, disk];
