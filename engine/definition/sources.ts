import { readdir } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { fileReason, UserError } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';
import { overlaidLists, querySchema } from '../query/index.ts';
import { readYaml, type Source } from '../yaml/index.ts';
import base from './resource.schema.json' with { type: 'json' };

/** The schemas of the lists that a file with `extends` can change, by key. */
const listSchemas = Object.entries(querySchema).filter(([name]) => overlaidLists.has(name));

/** Returns the schema of a list in a file with `extends`: a list, or the entries to add and to remove. */
const overlaidSchema = (list: JsonSchema): JsonSchema => ({
  if: { type: 'object' },
  // biome-ignore lint/suspicious/noThenProperty: a JSON Schema keyword
  then: {
    additionalProperties: false,
    minProperties: 1,
    'x-expected': 'a list, or a map such as { remove: [ status ], add: [ created_at ] }',
    properties: {
      add: { ...list, description: 'Entries to add. They replace the existing entries of the same fields.' },
      remove: {
        description: 'Fields whose entries are removed.',
        type: 'array',
        minItems: 1,
        items: { type: 'string' },
        uniqueItems: true,
        'x-expected': 'a list of at least one field, for example [ status ]',
      },
    },
  },
  else: list,
});

/** JSON Schema of a resource file, including the keys of the query parts. */
export const resourceSchema = {
  ...base,
  // biome-ignore lint/suspicious/noThenProperty: a JSON Schema keyword
  then: { properties: Object.fromEntries(listSchemas.map(([name, list]) => [name, overlaidSchema(list)])) },
  else: { ...base.else, properties: { ...base.else.properties, ...Object.fromEntries(listSchemas) } },
  properties: {
    ...base.properties,
    ...querySchema,
    ...Object.fromEntries(
      listSchemas.map(([name, { description, examples }]) => [name, { description, examples }]),
    ),
  },
} as const;

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
