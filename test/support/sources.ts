// Resource definitions for tests.
import { join } from 'node:path';
import { projectFolder } from '../../engine/config/variables.ts';
import { readSources } from '../../engine/definition/sources.ts';
import type { Source } from '../../engine/yaml/load.ts';

/** Returns the shipped resource files and additional ones. */
export const sourcesWith = async (...more: Source[]): Promise<Source[]> => [
  ...(await readSources(join(projectFolder, 'resources'))),
  ...more,
];
