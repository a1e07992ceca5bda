import { parse } from 'yaml';
import type { JsonSchema } from '../../engine/fields/index.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import type { OpenApiDocument } from '../../plugins/api/explorer/index.ts';
import { loadConfig } from '../config.ts';
import { describeInstance, loadResources } from '../serve/build.ts';
import type { Instance } from '../services.ts';
import { airbyteManifest } from './airbyte-manifest.ts';

/** Adds the `connector airbyte` command. */
export function connectorCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('connector')
    .description('generate connectors for data integration tools from the definitions')
    .command('airbyte')
    .description('print a manifest for the Airbyte Connector Builder; needs no database')
    .addOption(jsonResult())
    .action(({ json }) => run(json, airbyte()));
}

/** Runs `connector airbyte`: prints the manifest as YAML. */
async function airbyte(): Promise<CommandResult> {
  const config = await loadConfig();
  const document = await describeInstance({ config, resources: await loadResources(config) });
  const manifest = airbyteManifest(document as OpenApiDocument);
  return { json: parse(manifest) as JsonSchema, text: manifest.trimEnd() };
}
