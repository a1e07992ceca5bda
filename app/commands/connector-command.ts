import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { UserError } from '../../engine/errors.ts';
import type { JsonSchema } from '../../engine/fields/index.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import type { OpenApiDocument } from '../../plugins/api/explorer/index.ts';
import { loadConfig } from '../config.ts';
import { describeInstance, loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';
import { airbyteManifest } from './airbyte-manifest.ts';
import { n8nNames, n8nPackage, n8nUserFiles } from './n8n-package.ts';
import { readOutputFolder } from './output-folder.ts';

/** Adds the `connector` commands. */
export function connectorCommand({ program, run }: CommandLine<Instance>): void {
  const connector = program
    .command('connector')
    .description('generate connectors for integration tools from the definitions');
  connector
    .command('airbyte')
    .description('print a manifest for the Airbyte Connector Builder; needs no database')
    .addOption(jsonResult())
    .action(({ json }) => run(json, airbyte()));
  connector
    .command('n8n')
    .description('generate an npm package with nodes for n8n; needs no database')
    .option('--name <name>', 'name of the nodes in n8n, from which the package gets its name', 'CRM')
    .option('--output <folder>', 'output folder; an existing package in it is updated')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, n8n(options)));
}

/** Returns the OpenAPI document of the local definitions. */
async function localDocument(): Promise<OpenApiDocument> {
  const config = await loadConfig();
  return (await describeInstance({ config, resources: await loadResources(config) })) as OpenApiDocument;
}

/** Runs `connector airbyte`: prints the manifest as YAML. */
async function airbyte(): Promise<CommandResult> {
  const manifest = airbyteManifest(await localDocument());
  return { json: parse(manifest) as JsonSchema, text: manifest.trimEnd() };
}

/** Runs `connector n8n`: writes the package. Files that users can edit are created once. */
async function n8n({
  name,
  output,
}: {
  readonly name: string;
  readonly output?: string | undefined;
}): Promise<CommandResult> {
  const names = n8nNames(name);
  const files = n8nPackage(await localDocument(), names);
  const target = output ?? names.packageName;
  const folder = resolve(target);
  const marker = 'package.json';
  const existing = await readOutputFolder(folder, { contents: 'a package for n8n', marker });
  if (existing.length > 0) await assertSamePackage(join(folder, marker), files.get(marker) ?? '', target);
  for (const [path, text] of files) {
    if (n8nUserFiles.includes(path) && existing.includes(path)) continue;
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return {
    json: { folder, files: [...files.keys()] },
    text: `Wrote a package for n8n to ${target}. See its README.md for installation.`,
  };
}

/** @throws UserError if a folder's package.json does not register the same nodes as the new one */
async function assertSamePackage(path: string, text: string, output: string): Promise<void> {
  const nodesIn = (source: string): string =>
    JSON.stringify((JSON.parse(source) as { readonly n8n?: unknown }).n8n);
  let existing: string | undefined;
  try {
    existing = nodesIn(await readFile(path, 'utf8'));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
  }
  if (existing !== nodesIn(text))
    throw new UserError(
      `${output} contains another package, or one that was generated with another --name. Choose an empty folder.`,
    );
}
