import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder } from '../engine/config/index.ts';

/** The version of this package, and of the described API. */
export const { version } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')) as {
  version: string;
};
