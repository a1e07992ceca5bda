// Test support: resource definitions.
import { join } from 'node:path';
import { projectFolder } from '../../engine/config/variables.ts';
import { readSources } from '../../engine/definition/sources.ts';
import type { Source } from '../../engine/yaml/load.ts';

/** The shipped resource files and further ones. */
export const sourcesWith = async (...more: Source[]): Promise<Source[]> => [
  ...(await readSources(join(projectFolder, 'resources'))),
  ...more,
];
