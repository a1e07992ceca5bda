import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { styleText } from 'node:util';
import { Argument, Command, type CommandUnknownOpts, Option } from '@commander-js/extra-typings';
import { readVariables, settingsFileVariable } from '../../engine/config/index.ts';
import { completionCommand } from './completion.ts';
import { examples } from './examples.ts';

/** Metadata of a command for help and completion, without its action. */
interface Outline {
  readonly name: string;
  readonly description: string;
  readonly arguments: readonly ParameterOutline[];
  readonly options: readonly (ParameterOutline & { readonly mandatory?: true; readonly default?: unknown })[];
  readonly commands: readonly Outline[];
  /** Text shown at the end of the command's help. */
  readonly after?: string;
}

interface ParameterOutline {
  /** Notation in the usage line, for example `<name>`, `[file]` or `--json`. */
  readonly flags: string;
  readonly description: string;
  readonly choices?: readonly string[];
}

const file = new URL('cli-reference.json', import.meta.url);

/** Formats bold text. Commander strips the formatting if the terminal does not support it. */
const bold = (text: string): string => styleText('bold', text, { validateStream: false });

/**
 * Returns a program with help and completion for all commands, without loading their code, because that takes
 * almost a second.
 */
export function referenceProgram(version: string): Command {
  const program = createProgram(version);
  const { commands } = JSON.parse(readFileSync(file, 'utf8')) as Outline;
  for (const outline of commands) addCommand(program, outline);
  completionCommand(program);
  return withExamples(program, { completion: examples.completion ?? [] });
}

/**
 * Returns whether the arguments only request output that the reference program can print: completion, the version, or help if the
 * instance has no modules, whose commands the reference lacks.
 */
export function isAnsweredByReference(args: readonly string[]): boolean {
  const separator = args.indexOf('--');
  const words = separator < 0 ? args : args.slice(0, separator);
  const [first = 'help'] = words;
  if (['completion', '-V', '--version'].includes(first)) return true;
  const isHelp = first === 'help' || words.some((word) => word === '-h' || word === '--help');
  return isHelp && !listsModules();
}

/** Returns whether config.yaml contains the key `modules`. A file that cannot be read has none. */
function listsModules(): boolean {
  const { settingsFile } = readVariables({ settingsFile: settingsFileVariable }, process.env, []);
  try {
    return /^modules:/m.test(readFileSync(settingsFile, 'utf8'));
  } catch {
    return false;
  }
}

/** Creates a program without commands. With `--json`, it prints errors as JSON. */
export function createProgram(version: string): Command {
  const isJson = process.argv.includes('--json');
  const program = new Command('crm')
    // Commands can have an option --version of their own.
    .enablePositionalOptions()
    .description('An organization-scoped CRM API whose resources are declared in YAML.')
    .version(version)
    .showHelpAfterError(isJson ? false : '(run with --help for usage)')
    .configureHelp({
      styleTitle: bold,
    });
  if (isJson) {
    program.configureOutput({
      outputError: (text, write) =>
        write(`${JSON.stringify({ error: text.replace(/^error: /, '').trim() })}\n`),
    });
  }
  return program;
}

/** Adds examples to the help of commands. */
export function withExamples(program: Command, examplesByCommand = examples): Command {
  for (const [path, lines] of Object.entries(examplesByCommand)) {
    const command = path
      .split(' ')
      .reduce<CommandUnknownOpts | undefined>(
        (parent, name) => parent?.commands.find((candidate) => candidate.name() === name),
        program,
      );
    command?.addHelpText(
      'after',
      `\n${bold('Examples:')}\n${lines.map((line) => `  crm ${line}`).join('\n')}`,
    );
  }
  return program;
}

/** Serializes a program's outline as the JSON stored in cli-reference.json for {@link referenceProgram}. */
export const referenceText = (program: Command): string => `${JSON.stringify(outlineOf(program), null, 1)}\n`;

function outlineOf(command: CommandUnknownOpts): Outline {
  const after = helpFooter(command);
  return {
    name: command.name(),
    description: command.description(),
    ...(after !== '' && { after }),
    arguments: command.registeredArguments.map((item) => ({
      flags: `${item.required ? '<' : '['}${item.name()}${item.variadic ? '...' : ''}${item.required ? '>' : ']'}`,
      description: item.description,
      ...(item.argChoices && { choices: item.argChoices }),
    })),
    options: command.options
      .filter(({ short }) => short !== '-V')
      .map((item) => ({
        flags: item.flags,
        description: item.description,
        ...(item.argChoices && { choices: item.argChoices }),
        ...(item.mandatory && { mandatory: true }),
        ...(item.defaultValue !== undefined && { default: item.defaultValue as unknown }),
      })),
    commands: command.commands.filter((item) => item.name() !== 'completion').map(outlineOf),
  };
}

/** Returns the text added to the end of a command's help. */
export function helpFooter(command: CommandUnknownOpts): string {
  let text = '';
  const write = (chunk: string) => {
    text += chunk;
  };
  // Commander stores this text only in event listeners, and its types do not declare `emit`.
  (command as unknown as EventEmitter).emit('afterHelp', { error: false, command, write });
  return text.replace(/\n$/, '');
}

function addCommand(parent: Command, outline: Outline): void {
  const command = parent.command(outline.name).description(outline.description) as Command;
  for (const { flags, description, choices } of outline.arguments) {
    const argument = new Argument(flags, description);
    command.addArgument(choices === undefined ? argument : argument.choices(choices));
  }
  for (const { flags, description, choices, mandatory, default: value } of outline.options) {
    const option = new Option(flags, description).makeOptionMandatory(mandatory === true);
    if (choices !== undefined) option.choices(choices);
    if (value !== undefined) option.default(value);
    command.addOption(option);
  }
  if (outline.after !== undefined) command.addHelpText('after', outline.after);
  // A command with arguments of its own has an action, so Commander does not add a help command to it.
  if (outline.arguments.length > 0) command.helpCommand(false);
  for (const child of outline.commands) addCommand(command, child);
}
