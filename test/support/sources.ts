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

/** Returns the shipped resources, in which the email addresses of contacts are unique, as docs/api.md describes. */
export const sourcesOfGuide = async (): Promise<Source[]> =>
  (await sourcesWith()).map(({ file, text }) => ({
    file,
    text: file.endsWith('contacts.yaml') ? text.replace('email: { type: string,', '$& unique: true,') : text,
  }));
