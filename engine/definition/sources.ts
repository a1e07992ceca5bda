import { readdir } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { fileReason, UserError } from '../errors.ts';
import { querySchema } from '../query/index.ts';
import { readYaml, type Source } from '../yaml/index.ts';
import base from './resource.schema.json' with { type: 'json' };

/** JSON Schema of a resource file, including the keys of the query parts. */
export const resourceSchema = { ...base, properties: { ...base.properties, ...querySchema } } as const;

const isYaml = (name: string): boolean => /\.ya?ml$/.test(name);

/**
 * Reads every YAML file in a folder, sorted by name. Each YAML file in a subfolder is returned with an issue.
 * @param isShipped whether the files are part of the engine
 * @throws UserError if the folder or a file cannot be read
 */
export async function readSources(folder: string, isShipped = false): Promise<Source[]> {
  const entries = await listFolder(folder);
  const names = entries.filter(({ name }) => isYaml(name)).map(({ name }) => name);
  const subfolders = entries.filter(
    (entry) => entry.isDirectory() && !entry.name.startsWith('.') && !isYaml(entry.name),
  );
  const sources = names.sort().map(async (name) => {
    const path = join(folder, name);
    const source = await readYaml(path).catch((cause: unknown) => {
      throw new UserError(`cannot read ${path}: ${fileReason(cause)}`);
    });
    return { ...source, isShipped };
  });
  const misplacedFiles = subfolders.map(async ({ name }) =>
    (await listFolder(join(folder, name)))
      .filter((entry) => isYaml(entry.name))
      .map((entry) => misplacedFile(folder, join(folder, name, entry.name)))
      .sort((a, b) => (a.file < b.file ? -1 : 1)),
  );
  return [...(await Promise.all(sources)), ...(await Promise.all(misplacedFiles)).flat()];
}

const listFolder = (folder: string) =>
  readdir(folder, { withFileTypes: true }).catch((cause: NodeJS.ErrnoException) => {
    throw new UserError(`cannot read the folder ${folder}: ${fileReason(cause)}`);
  });

function misplacedFile(folder: string, path: string): Source {
  const file = relative(process.cwd(), path);
  const target = relative(process.cwd(), folder) || '.';
  const message = `subfolders are not read. Move this file to ${target}, or delete it.`;
  return { file, text: '', issue: { file, line: 1, column: 1, message } };
}

/** Returns a file's name without its folder and extension. */
export const fileStem = (file: string): string => basename(file).replace(/\.ya?ml$/, '');

/** Name of the file that contains the shared fields, without its extension. */
export const commonName = 'common';

/** Matches table names reserved for the engine and PostgreSQL. */
export const reservedTableNames = /^(?:crm|pg)_/;
