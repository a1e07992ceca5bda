import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import { createDemo } from '../../plugins/operations/demo/index.ts';
import { loadConfig } from '../config.ts';
import { startDevServer } from '../dev/dev-server.ts';
import { exampleResource, startupBanner } from '../serve/startup-banner.ts';
import { stopOnSignals } from '../serve/stop.ts';
import type { Instance } from '../services.ts';

/** Adds the `dev` command. */
export function devCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('dev')
    .description('serve the API and apply changes to the definitions when a file is saved')
    .addOption(jsonResult())
    .action(({ json }) => run(json, dev()));
}

/** Starts the server and reports edits on standard error. @returns the output to print once it is listening */
async function dev(): Promise<CommandResult> {
  const config = await loadConfig();
  if (config.workers > 1) throw new UserError('crm dev runs a single process. Unset WORKERS.');
  const { url, resources, database, press, close } = await startDevServer(config, (text) =>
    process.stderr.write(`${text}\n`),
  );
  const stop = async () => {
    await close();
    return true;
  };
  stopOnSignals({ drain: () => {}, delayMs: 0, stop });
  const { stdin } = process;
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.setEncoding('utf8').on('data', (keys: string) => {
    // In raw mode, the terminal does not turn Ctrl+C into a signal.
    if (keys.includes('\x03')) process.kill(process.pid, 'SIGINT');
    else press(keys.charAt(0));
  });
  const demo = await createDemo(database, config, resources);
  return startupBanner(config, { url, adminUrl: undefined, example: exampleResource(resources), demo });
}
