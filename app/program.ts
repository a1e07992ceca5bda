import { debuglog, styleText } from 'node:util';
import type { Command } from '@commander-js/extra-typings';
import { UserError } from '../engine/errors.ts';
import type { CommandLine } from '../engine/modules/index.ts';
import { addCommands } from './add-commands.ts';
import { clientCommand } from './client-command.ts';
import { completionCommand } from './completion.ts';
import { readConfig } from './config.ts';
import { configCommand } from './config-command.ts';
import { devCommand } from './dev-command.ts';
import { doctorCommand } from './doctor-command.ts';
import { schemaCommand } from './editors.ts';
import { withInstance } from './instance.ts';
import { modelCommands } from './model-commands.ts';
import { modules } from './modules.ts';
import { newCommand } from './new-command.ts';
import { newProgram, withExamples } from './outline.ts';
import { planCommands } from './plan-commands.ts';
import { pruneCommand } from './prune-command.ts';
import { recordCommands } from './record-commands.ts';
import { serveCommand } from './serve.ts';
import type { Instance } from './services.ts';
import { version } from './version.ts';

/** Logs the stack of an unexpected failure if NODE_DEBUG=crm. */
const debug = debuglog('crm');

const run: CommandLine<Instance>['run'] = async (json, work) => {
  try {
    const result = await work;
    const text = json ? JSON.stringify(result.json) : result.text;
    if (text !== '') process.stdout.write(`${text}\n`);
  } catch (error) {
    const known = error instanceof UserError;
    const { message, stack } = error as Error;
    const text = known ? message : `it failed unexpectedly: ${message.split('\n')[0]}`;
    const name = styleText('red', 'crm:', { stream: process.stderr });
    process.stderr.write(json ? `${JSON.stringify({ error: text })}\n` : `${name} ${text}\n`);
    if (!known) debug('%s', stack);
    process.exitCode = 1;
  }
};

/** The command line: commands of the service and the model, and those of every module. */
export function makeProgram(): Command {
  const program = newProgram(version);
  const line: CommandLine<Instance> = { program, config: readConfig, run, withInstance };
  for (const add of [
    serveCommand,
    devCommand,
    newCommand,
    addCommands,
    modelCommands,
    planCommands,
    schemaCommand,
    configCommand,
    doctorCommand,
    clientCommand,
    recordCommands,
    pruneCommand,
  ])
    add(line);
  for (const { commands } of modules) commands?.(line);
  completionCommand(program);
  return withExamples(program);
}
