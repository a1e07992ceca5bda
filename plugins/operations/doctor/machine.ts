import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type DatabaseConfig, processShare } from '../../../engine/database/index.ts';
import type { HttpConfig } from '../../../engine/http/index.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';

/** The oldest Node that runs the service. */
const oldestNode = 24;

/** What is wrong with a version of Node. */
export const nodeFindings = (version: string): readonly Finding[] =>
  Number.parseInt(version, 10) >= oldestNode
    ? []
    : [
        {
          place: `Node ${version}`,
          problem: `the service needs Node ${oldestNode} or newer`,
          advice: 'Start it with "npx crm" or "npm start", which use the Node that the package installs.',
        },
      ];

const node: DoctorCheck = { name: 'Node', needs: [], run: () => nodeFindings(process.versions.node) };

/** Number of files that a process and its database open in addition to connections. */
const openAnyway = 150;

const openFiles: DoctorCheck<{ readonly config: DatabaseConfig & HttpConfig }> = {
  name: 'open files',
  needs: ['config'],
  run: ({ config }) => {
    const { userLimits } = process.report.getReport() as {
      userLimits?: { open_files?: { soft?: number | string } };
    };
    const limit = Number(userLimits?.open_files?.soft);
    const wanted = processShare(config.maxConnections, config) + config.pool + openAnyway;
    // "unlimited" is not a number, and Windows does not have this limit.
    if (!(limit < wanted)) return [];
    return [
      {
        place: 'ulimit -n',
        problem: `a process can open ${limit} files, but MAX_CONNECTIONS requires ${wanted}`,
        advice: `Raise the limit where the server is started (LimitNOFILE in systemd), or set MAX_CONNECTIONS to ${Math.max(1, limit - config.pool - openAnyway)}.`,
      },
    ];
  },
};

const mebibyte = 1024 * 1024;
/** Less is nearly full: of a disk of any size, and of a large one a twentieth up to some size. */
const [leastBytes, mostBytes, leastPart] = [256 * mebibyte, 5 * 1024 * mebibyte, 0.05];

const disk: DoctorCheck<{ readonly config: DatabaseConfig }> = {
  name: 'disk',
  needs: ['config'],
  run: async ({ config }) => {
    let folder = config.dataFolder;
    while (!existsSync(folder)) folder = dirname(folder);
    const { bavail, blocks, bsize } = await statfs(folder);
    const [free, whole] = [bavail * bsize, blocks * bsize];
    if (free >= Math.max(leastBytes, Math.min(mostBytes, whole * leastPart))) return [];
    return [
      {
        place: folder,
        problem: `the disk is nearly full: ${Math.floor(free / mebibyte)} MiB of ${Math.floor(whole / mebibyte)} MiB are free`,
        advice: 'Free some space or enlarge the disk. When it is full, writes fail but reads continue.',
      },
    ];
  },
};

/** The machine that the command runs on. */
export const machineChecks = [node, openFiles, disk];
