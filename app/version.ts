import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder } from '../engine/config/index.ts';

/** The version of this package, which is also the version in the OpenAPI document. */
export const { version } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')) as {
  version: string;
};
