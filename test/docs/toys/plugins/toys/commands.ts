import { type CommandLine, jsonResult } from '../../engine/modules/index.ts';

/** Adds the command `toys`. */
export function toyCommands({ program, run }: CommandLine<unknown>): void {
  program
    .command('toys')
    .description('list toys')
    .addOption(jsonResult())
    .action(({ json }) => run(json, Promise.resolve({ json: { toys: ['ball'] }, text: 'ball' })));
}
