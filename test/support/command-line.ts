// Test support: runs modules' commands on an open instance without starting a process for each command.
import { Command } from '@commander-js/extra-typings';
import { pruneCommand } from '../../app/commands/retention-command.ts';
import { buildService, divideResources } from '../../app/serve/build.ts';
import type { CommandResult } from '../../engine/modules/command-line.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { configuredSlugs, readSettings } from '../../webhooks/settings/index.ts';
import type { Instance } from './instance.ts';

/**
 * Runs a command.
 * @returns its output
 * @throws the error with which it failed
 */
export async function runCommand(
  { config, resources, database }: Instance,
  args: readonly string[],
): Promise<CommandResult> {
  const opened = { config, ...divideResources(resources), database, secrets: instanceSecrets(config) };
  const instance = {
    ...opened,
    service: () => buildService(opened),
    configuredSlugs: async () => configuredSlugs(await readSettings(config)),
  };
  const results: Promise<CommandResult>[] = [];
  const program = new Command('crm');
  for (const commands of [...config.modules.map((module) => module.commands), pruneCommand]) {
    await commands?.({
      program,
      config: () => config,
      run: async (_json, work) => {
        results.push(work);
        await work;
      },
      withInstance: (work) => work(instance),
    });
  }
  await program.parseAsync([...args], { from: 'user' });
  const [result, ...more] = await Promise.all(results);
  if (result === undefined || more.length > 0) throw new Error(`${args.join(' ')} is not a single command`);
  return result;
}
