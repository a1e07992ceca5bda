import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { projectFolder } from '../../engine/config/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import { readConfig } from '../config.ts';
import { describeInstance, loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';
import { clientSource, type Document } from './client-source.ts';

/** Folder of the client for the shipped resources. Files that do not depend on resources are copied from it. */
const shippedClient = join(projectFolder, 'client');
const resourcesFile = 'src/resources.ts';
/** Files that users can edit. They are written once and never replaced. */
const userFiles = ['package.json', 'README.md', 'LICENSE', 'tsconfig.json'];

/** Adds the `client` command. */
export function clientCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('client')
    .description('generate a typed client for this API as an npm package; needs no database')
    .option('--output <folder>', 'output folder; an existing client source is replaced', 'client')
    .option('--url <url>', 'generate it for the instance at this URL instead of the local definitions')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, writeClient(options)));
}

async function writeClient({
  output,
  url,
}: {
  output: string;
  url?: string | undefined;
}): Promise<CommandResult> {
  const source = clientSource(url === undefined ? await localDescription() : await remoteDescription(url));
  const folder = resolve(output);
  const existing: readonly string[] = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return [];
    throw new UserError(`${output} cannot be read: ${fileReason(cause)}`, { cause });
  });
  if (existing.length > 0 && !existsSync(join(folder, resourcesFile)))
    throw new UserError(`${output} contains files but not a client. Choose an empty folder.`);
  await mkdir(folder, { recursive: true });
  // In a clone, the default is the shipped client itself.
  if (folder !== shippedClient) {
    await cp(join(shippedClient, 'src'), join(folder, 'src'), { recursive: true });
    for (const file of userFiles.filter((name) => !existing.includes(name)))
      await cp(join(shippedClient, file), join(folder, file));
  }
  await writeFile(join(folder, resourcesFile), source);
  return {
    json: { folder, files: [...userFiles, 'src'] },
    text: `Wrote a client to ${output}. See its README.md for usage.`,
  };
}

async function localDescription(): Promise<Document> {
  const config = readConfig();
  return (await describeInstance({ config, resources: await loadResources(config) })) as unknown as Document;
}

/** Fetches the OpenAPI document of a running instance. @throws UserError if it is not available */
async function remoteDescription(url: string): Promise<Document> {
  if (!URL.canParse(url)) throw new UserError(`--url must be like https://crm.example.com, not ${url}`);
  const documentUrl = `${url.replace(/\/+$/, '')}/docs/openapi.json`;
  const response = await fetch(documentUrl, { signal: AbortSignal.timeout(30_000) }).catch(
    (cause: unknown) => {
      throw new UserError(`${documentUrl} does not respond`, { cause });
    },
  );
  if (!response.ok) throw new UserError(`${documentUrl} responds ${response.status}`);
  return (await response.json().catch((cause: unknown) => {
    throw new UserError(`${documentUrl} did not return valid JSON`, { cause });
  })) as Document;
}
