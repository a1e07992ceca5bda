import { UserError } from '../engine/errors.ts';
import { asJson, type CommandLine, type Result } from '../engine/modules/index.ts';
import { createDemo } from '../plugins/demo/index.ts';
import { readConfig } from './config.ts';
import { develop } from './dev.ts';
import type { Instance } from './services.ts';
import { exampleOf, printed } from './started.ts';
import { stopOnSignals } from './stop.ts';

/** `dev`. */
export function devCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('dev')
    .description('serve the API, and follow edits of the definitions')
    .addOption(asJson())
    .action(({ json }) => run(json, dev()));
}

/** @returns what to print once it listens; what edits do is told on standard error */
async function dev(): Promise<Result> {
  const config = readConfig();
  if (config.workers > 1) throw new UserError('crm dev serves by one process: unset WORKERS');
  const { url, resources, database, press, close } = await develop(config, (text) =>
    process.stderr.write(`${text}\n`),
  );
  const stop = async () => {
    await close();
    return true;
  };
  stopOnSignals({ leave: () => {}, delayMs: 0, stop });
  const { stdin } = process;
  if (stdin.isTTY) stdin.setRawMode(true);
  stdin.setEncoding('utf8').on('data', (keys: string) => {
    // A terminal that gives single keys makes no signal of this one.
    if (keys.includes('\x03')) process.kill(process.pid, 'SIGINT');
    else press(keys.charAt(0));
  });
  const demo = await createDemo(database, config, resources);
  return printed(config, { url, adminUrl: undefined, example: exampleOf(resources), demo });
}
