import { debuglog, styleText } from 'node:util';
import type { Command } from '@commander-js/extra-typings';
import { UserError } from '../../engine/errors.ts';
import type { CommandLine } from '../../engine/modules/index.ts';
import { type Config, loadConfig } from '../config.ts';
import { withInstance } from '../instance.ts';
import { modules } from '../modules.ts';
import type { Instance, ModuleList } from '../services.ts';
import { version } from '../version.ts';
import { createProgram, withExamples } from './cli-reference.ts';
import { completionCommand } from './completion.ts';
import { isOutputCut } from './cut-output.ts';

type AddCommand = (line: CommandLine<Instance>) => void | Promise<void>;

/** Commands not added by modules, with their first words, in the order in which the help shows them. */
const ownCommands: readonly (readonly [words: readonly string[], add: AddCommand])[] = [
  [['serve'], async (line) => (await import('../serve/serve-command.ts')).serveCommand(line)],
  [['dev'], async (line) => (await import('./dev-command.ts')).devCommand(line)],
  [['new'], async (line) => (await import('./new-command.ts')).newCommand(line)],
  [['add'], async (line) => (await import('./add-commands.ts')).addCommands(line)],
  [
    ['migrate', 'check', 'openapi', 'asyncapi', 'docs', 'citus'],
    async (line) => (await import('./model-commands.ts')).modelCommands(line),
  ],
  [['plan'], async (line) => (await import('./plan-commands.ts')).planCommands(line)],
  [['schema'], async (line) => (await import('./editors.ts')).schemaCommand(line)],
  [['config'], async (line) => (await import('./config-command.ts')).configCommand(line)],
  [['doctor'], async (line) => (await import('./doctor-command.ts')).doctorCommand(line)],
  [['client'], async (line) => (await import('./client-command.ts')).clientCommand(line)],
  [['types'], async (line) => (await import('./types-command.ts')).typesCommand(line)],
  [['connector'], async (line) => (await import('./connector-command.ts')).connectorCommand(line)],
  [['mcp'], async (line) => (await import('./mcp-command.ts')).mcpCommand(line)],
  [['export', 'import'], async (line) => (await import('./record-commands.ts')).recordCommands(line)],
  [['prune'], async (line) => (await import('./retention-command.ts')).pruneCommand(line)],
];

/**
 * Returns the function that adds the command with this first word. For any other word, returns the functions for all
 * commands, including module commands.
 */
function commandAdders(word: string | undefined, { modules: all }: ModuleList): readonly AddCommand[] {
  const match = ownCommand(word);
  if (match !== undefined) return [match];
  return [...ownCommands.map(([, add]) => add), ...all.flatMap(({ commands }) => commands ?? [])];
}

/** Returns the function that adds the command with this first word, unless a module adds it. */
const ownCommand = (word: string | undefined): AddCommand | undefined =>
  ownCommands.find(([words]) => words.some((name) => name === word))?.[1];

/** Logs the stack trace of an unexpected error if NODE_DEBUG=crm is set. */
const debug = debuglog('crm');

const run: CommandLine<Instance>['run'] = async (json, work) => {
  try {
    const result = await work;
    const text = json ? JSON.stringify(result.json) : result.text;
    if (text !== '') process.stdout.write(`${text}\n`);
  } catch (error) {
    // Error codes for writes to a stream that its reader has closed.
    const closedCodes = [
      'EPIPE',
      'ERR_STREAM_PREMATURE_CLOSE',
      'ERR_STREAM_DESTROYED',
      'ERR_STREAM_UNABLE_TO_PIPE',
    ];
    if (isOutputCut() && closedCodes.includes((error as NodeJS.ErrnoException).code ?? '')) return;
    const isExpected = error instanceof UserError;
    const { message, stack } = error as Error;
    const text = isExpected ? message : unexpected(error as NodeJS.ErrnoException);
    const name = styleText('red', 'crm:', { stream: process.stderr });
    process.stderr.write(json ? `${JSON.stringify({ error: text })}\n` : `${name} ${text}\n`);
    if (!isExpected) debug('%s', stack);
    process.exitCode = 1;
  }
};

const asError = (cause: unknown): Error => (cause instanceof Error ? cause : new Error(String(cause)));

/** PostgreSQL's SQLSTATE for a full disk. */
const diskFull = '53100';

/** Returns the first line of an unexpected error, with advice if the database's disk is full. */
const unexpected = ({ code, message }: NodeJS.ErrnoException): string => {
  const [line] = message.split('\n');
  return code === diskFull
    ? `the database disk is full (${line}). Free some space and try again.`
    : `unexpected error: ${line}`;
};

/** Returns the error for a command that exists twice, or undefined for other errors. */
function conflictOf(cause: unknown): UserError | undefined {
  const [, name] = /^cannot add command '([^']+)'/.exec(asError(cause).message) ?? [];
  return name === undefined
    ? undefined
    : new UserError(`the command "${name}" already exists. Rename the command of the module.`, { cause });
}

/**
 * Builds the command line.
 * @param word the first argument. If it names a command that is not added by a module, only this command is loaded.
 */
export async function buildProgram(word?: string): Promise<Command> {
  const program = createProgram(version);
  // The engine's own commands load the configuration when they run. Modules add commands, so they are loaded first.
  const loaded = ownCommand(word) === undefined ? await loadConfig().catch(asError) : undefined;
  const config = (): Config => {
    if (loaded === undefined || loaded instanceof Error)
      throw loaded ?? new Error(`"${word}" loads its own configuration`);
    return loaded;
  };
  const line: CommandLine<Instance> = {
    program,
    config,
    run,
    withInstance: async (work) => withInstance(loaded === undefined ? await loadConfig() : config(), work),
  };
  const list = loaded === undefined || loaded instanceof Error ? { modules } : loaded;
  for (const add of commandAdders(word, list)) {
    try {
      await add(line);
    } catch (cause) {
      const conflict = conflictOf(cause);
      if (conflict === undefined) throw cause;
      await run(undefined, Promise.reject(conflict));
    }
  }
  // The command might belong to a module that cannot be loaded.
  const isUnknown = !program.commands.some((command) => command.name() === word);
  if (word !== undefined && isUnknown && loaded instanceof Error) {
    const json = process.argv.includes('--json') || undefined;
    program
      .command(word, { hidden: true })
      .allowUnknownOption()
      .allowExcessArguments()
      .action(() => run(json, Promise.reject(loaded)));
  }
  completionCommand(program);
  return withExamples(program);
}
