import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { editorSchemas, fileStem, readSources } from '../../engine/definition/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import { type CommandLine, jsonResult } from '../../engine/modules/index.ts';
import { settingsEditorSchema } from '../../webhooks/settings/index.ts';
import { type Config, loadConfig } from '../config.ts';
import { readDefinitions } from '../serve/build.ts';
import type { Instance } from '../services.ts';

/** Returns the folder that contains the schemas. */
const folderOf = ({ resources }: Pick<Config, 'resources'>): string => join(resources, '.schemas');
/** Resource names do not start with "_", so this file cannot collide with a resource's schema. */
const settingsSchema = '_config.json';

type EditedFiles = Pick<Config, 'resources' | 'shippedResources' | 'settingsFile' | 'modules'>;

/** Adds the `schema` command. */
export function schemaCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('schema')
    .description('write JSON Schemas that let editors complete and check definitions and config.yaml')
    .addOption(jsonResult())
    .action(({ json }) => run(json, loadConfig().then(schema)));
}

async function schema(config: Config) {
  const files = await writeSchemas(config);
  const annotated = await nameSchemas(config);
  return {
    json: { written: files, named: annotated },
    text: [
      `Wrote ${files.length} schemas to ${displayPath(folderOf(config))}.`,
      ...annotated.map((file) => `${file} now refers to its schema in its first line.`),
      'Editors with a YAML language server (in VS Code, the extension "YAML") now use them.',
    ].join('\n'),
  };
}

/**
 * Writes an instance's schemas, skipping invalid parts of the definitions.
 * @returns the paths of the written files
 */
export async function writeSchemas(config: EditedFiles): Promise<string[]> {
  const folder = folderOf(config);
  const schemas = new Map(
    [...editorSchemas(await readDefinitions(config))].map(([name, schema]) => [`${name}.json`, schema]),
  ).set(settingsSchema, settingsEditorSchema(config));
  try {
    await mkdir(folder, { recursive: true });
    for (const [name, schema] of schemas) {
      await writeFile(join(folder, name), `${JSON.stringify(schema, null, 2)}\n`);
    }
  } catch (cause) {
    throw new UserError(`cannot write ${folder}: ${fileReason(cause)}`);
  }
  return [...schemas.keys()].map((name) => displayPath(join(folder, name)));
}

/** Updates the schemas if they are in use. Failures are ignored because editors can still use the old schemas. */
export async function refreshSchemas(config: EditedFiles): Promise<void> {
  if (existsSync(folderOf(config))) await writeSchemas(config).catch(() => []);
}

const modeline = '# yaml-language-server: $schema=';

/** Returns the first line of a new definition file, which references its schema. */
export const schemaLine = (name: string): string =>
  `${modeline}${basename(folderOf({ resources: '' }))}/${name}.json\n`;

/**
 * Adds the schema reference to definition files that do not have one.
 * @returns the paths of the changed files
 */
export async function nameSchemas(config: EditedFiles): Promise<string[]> {
  const definitions = (await readSources(config.resources)).filter(({ issue }) => issue === undefined);
  const files = [
    ...definitions.map(({ file }) => ({ file, schema: `${fileStem(file)}.json` })),
    { file: config.settingsFile, schema: settingsSchema },
  ];
  const changed: string[] = [];
  for (const { file, schema: name } of files) {
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined || text.includes(modeline)) continue;
    const path = relative(dirname(file), join(folderOf(config), name)).replaceAll('\\', '/');
    await writeFile(file, `${modeline}${path}\n${text}`);
    changed.push(displayPath(file));
  }
  return changed;
}

const displayPath = (path: string): string => relative(process.cwd(), path) || basename(path);
