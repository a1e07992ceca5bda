import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { editorSchemas, fileStem, readSources } from '../../engine/definition/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import { type CommandLine, jsonResult } from '../../engine/modules/index.ts';
import { settingsEditorSchema } from '../../webhooks/settings/index.ts';
import { type Config, readConfig } from '../config.ts';
import { readDefinitions } from '../serve/build.ts';
import type { Instance } from '../services.ts';

/** Below the folder of definitions; no resource has a name that begins with "_". */
const folderOf = ({ resources }: Pick<Config, 'resources'>): string => join(resources, '.schemas');
const settingsSchema = '_config.json';

type EditedFiles = Pick<Config, 'resources' | 'shippedResources' | 'settingsFile'>;

/** `schema`. */
export function schemaCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('schema')
    .description('write JSON Schemas that let editors complete and check definitions and config.yaml')
    .addOption(jsonResult())
    .action(({ json }) => run(json, schema(readConfig())));
}

async function schema(config: Config) {
  const written = await writeSchemas(config);
  const named = await nameSchemas(config);
  return {
    json: { written, named },
    text: [
      `Wrote ${written.length} schemas to ${shownPath(folderOf(config))}.`,
      ...named.map((file) => `${file} now names its schema in its first line.`),
      'Editors with a YAML language server (VS Code: the extension "YAML") use them from now on.',
    ].join('\n'),
  };
}

/**
 * Writes the schemas of an instance. Definitions may be wrong: what can be read of them counts.
 * @returns the files written
 */
export async function writeSchemas(config: EditedFiles): Promise<string[]> {
  const folder = folderOf(config);
  const schemas = new Map(
    [...editorSchemas(await readDefinitions(config))].map(([name, each]) => [`${name}.json`, each]),
  ).set(settingsSchema, settingsEditorSchema);
  try {
    await mkdir(folder, { recursive: true });
    for (const [name, each] of schemas) {
      await writeFile(join(folder, name), `${JSON.stringify(each, null, 2)}\n`);
    }
  } catch (cause) {
    throw new UserError(`cannot write ${folder}: ${fileReason(cause)}`);
  }
  return [...schemas.keys()].map((name) => shownPath(join(folder, name)));
}

/** Updates the schemas if they are in use. Failures are ignored because editors can use old schemas. */
export async function refreshSchemas(config: EditedFiles): Promise<void> {
  if (existsSync(folderOf(config))) await writeSchemas(config).catch(() => []);
}

const modeline = '# yaml-language-server: $schema=';

/** The first line of a new file of definitions. */
export const schemaLine = (name: string): string =>
  `${modeline}${basename(folderOf({ resources: '' }))}/${name}.json\n`;

/** Puts the line that editors look for at the top of files that have none. @returns the files that got one */
export async function nameSchemas(config: EditedFiles): Promise<string[]> {
  const definitions = (await readSources(config.resources)).filter(({ problem }) => problem === undefined);
  const files = [
    ...definitions.map(({ file }) => ({ file, schema: `${fileStem(file)}.json` })),
    { file: config.settingsFile, schema: settingsSchema },
  ];
  const named: string[] = [];
  for (const { file, schema: name } of files) {
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined || text.includes(modeline)) continue;
    const path = relative(dirname(file), join(folderOf(config), name)).replaceAll('\\', '/');
    await writeFile(file, `${modeline}${path}\n${text}`);
    named.push(shownPath(file));
  }
  return named;
}

const shownPath = (path: string): string => relative(process.cwd(), path) || basename(path);
