import { debuglog, styleText } from 'node:util';
import type { Command } from '@commander-js/extra-typings';
import { UserError } from '../../engine/errors.ts';
import type { CommandLine } from '../../engine/modules/index.ts';
import { readConfig } from '../config.ts';
import { withInstance } from '../instance.ts';
import { modules } from '../modules.ts';
import type { Instance } from '../services.ts';
import { version } from '../version.ts';
import { createProgram, withExamples } from './cli-reference.ts';
import { completionCommand } from './completion.ts';
import { isOutputCut } from './cut-output.ts';

type Add = (line: CommandLine<Instance>) => void | Promise<void>;

/** The commands of the service and the model, by their first words, in the order of help. */
const own: readonly (readonly [words: readonly string[], add: Add])[] = [
  [['serve'], async (line) => (await import('../serve/serve-command.ts')).serveCommand(line)],
  [['dev'], async (line) => (await import('./dev-command.ts')).devCommand(line)],
  [['new'], async (line) => (await import('./new-command.ts')).newCommand(line)],
  [['add'], async (line) => (await import('./add-commands.ts')).addCommands(line)],
  [
    ['migrate', 'check', 'openapi', 'citus'],
    async (line) => (await import('./model-commands.ts')).modelCommands(line),
  ],
  [['plan'], async (line) => (await import('./plan-commands.ts')).planCommands(line)],
  [['schema'], async (line) => (await import('./editors.ts')).schemaCommand(line)],
  [['config'], async (line) => (await import('./config-command.ts')).configCommand(line)],
  [['doctor'], async (line) => (await import('./doctor-command.ts')).doctorCommand(line)],
  [['client'], async (line) => (await import('./client-command.ts')).clientCommand(line)],
  [['export', 'import'], async (line) => (await import('./record-commands.ts')).recordCommands(line)],
  [['prune'], async (line) => (await import('./retention-command.ts')).pruneCommand(line)],
];

/** Those that a word begins; with another word, or none, all of them and those of every module. */
function wanted(word: string | undefined): readonly Add[] {
  const found = own.find(([words]) => words.some((each) => each === word));
  if (found !== undefined) return [found[1]];
  return [...own.map(([, add]) => add), ...modules.flatMap(({ commands }) => commands ?? [])];
}

/** Logs the stack of an unexpected failure if NODE_DEBUG=crm. */
const debug = debuglog('crm');

const run: CommandLine<Instance>['run'] = async (json, work) => {
  try {
    const result = await work;
    const text = json ? JSON.stringify(result.json) : result.text;
    if (text !== '') process.stdout.write(`${text}\n`);
  } catch (error) {
    // Writing to a stream without a reader fails with these codes.
    const isCut = [
      'EPIPE',
      'ERR_STREAM_PREMATURE_CLOSE',
      'ERR_STREAM_DESTROYED',
      'ERR_STREAM_UNABLE_TO_PIPE',
    ];
    if (isOutputCut() && isCut.includes((error as NodeJS.ErrnoException).code ?? '')) return;
    const known = error instanceof UserError;
    const { message, stack } = error as Error;
    const text = known ? message : unexpected(error as NodeJS.ErrnoException);
    const name = styleText('red', 'crm:', { stream: process.stderr });
    process.stderr.write(json ? `${JSON.stringify({ error: text })}\n` : `${name} ${text}\n`);
    if (!known) debug('%s', stack);
    process.exitCode = 1;
  }
};

/** PostgreSQL's SQLSTATE for a full disk. */
const diskFull = '53100';

/** Returns the first line of an error that no one expected, or what to do if the disk of the database is full. */
const unexpected = ({ code, message }: NodeJS.ErrnoException): string => {
  const [line] = message.split('\n');
  return code === diskFull
    ? `the disk of the database is full (${line}). Free some space and try again.`
    : `unexpected error: ${line}`;
};

/**
 * The command line: commands of the service and the model, and those of every module.
 * @param word the first that was given: if it names a command of the service or the model, nothing else is loaded
 */
export async function buildProgram(word?: string): Promise<Command> {
  const program = createProgram(version);
  const line: CommandLine<Instance> = { program, config: readConfig, run, withInstance };
  for (const add of wanted(word)) await add(line);
  completionCommand(program);
  return withExamples(program);
}
