import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseConfig } from '../../../engine/database/index.ts';
import { fileReason } from '../../../engine/errors.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';

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
    const advice = 'Set DATA_DIR to a folder that this user can write, or change its owner with chown.';
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
      message: `other users of this machine can access it (mode ${mode.toString(8).padStart(4, '0')})`,
      advice: `Restrict access: chmod go= ${path}`,
    },
  ];
}
