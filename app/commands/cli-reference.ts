import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { styleText } from 'node:util';
import { Argument, Command, type CommandUnknownOpts, Option } from '@commander-js/extra-typings';
import { completionCommand } from './completion.ts';
import { examples } from './examples.ts';

/** What help says of a command: all of it but what it does. */
interface Outline {
  readonly name: string;
  readonly description: string;
  readonly arguments: readonly Choosable[];
  readonly options: readonly (Choosable & { readonly mandatory?: true; readonly default?: unknown })[];
  readonly commands: readonly Outline[];
  /** What comes after all that. */
  readonly after?: string;
}

interface Choosable {
  /** As in the usage, such as `<name>`, `[file]` and `--json`. */
  readonly flags: string;
  readonly description: string;
  readonly choices?: readonly string[];
}

const file = new URL('cli-reference.json', import.meta.url);

/** Commander strips it if the terminal does not support colors. */
const bold = (text: string): string => styleText('bold', text, { validateStream: false });

/** The commands as help and completion need them, without the code of any: loading that takes most of a second. */
export function referenceProgram(version: string): Command {
  const program = createProgram(version);
  const { commands } = JSON.parse(readFileSync(file, 'utf8')) as Outline;
  for (const each of commands) addOutlined(program, each);
  completionCommand(program);
  return withExamples(program, { completion: examples.completion ?? [] });
}

/** Whether the outline is enough for these arguments: they ask what there is. */
export function isAnsweredByReference(given: readonly string[]): boolean {
  const end = given.indexOf('--');
  const words = end < 0 ? given : given.slice(0, end);
  const [first = 'help'] = words;
  return (
    ['help', 'completion', '-V', '--version'].includes(first) ||
    words.some((word) => word === '-h' || word === '--help')
  );
}

/** The command line without a command: how it looks, and how it says what is wrong. */
export function createProgram(version: string): Command {
  const isJson = process.argv.includes('--json');
  const program = new Command('crm')
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
export function withExamples(program: Command, added = examples): Command {
  for (const [path, lines] of Object.entries(added)) {
    const command = path
      .split(' ')
      .reduce<CommandUnknownOpts | undefined>(
        (found, name) => found?.commands.find((each) => each.name() === name),
        program,
      );
    command?.addHelpText(
      'after',
      `\n${bold('Examples:')}\n${lines.map((line) => `  crm ${line}`).join('\n')}`,
    );
  }
  return program;
}

/** The outline of a program as it is stored; see {@link referenceProgram}. */
export const referenceText = (program: Command): string => `${JSON.stringify(outlineOf(program), null, 1)}\n`;

function outlineOf(command: CommandUnknownOpts): Outline {
  const after = helpFooter(command);
  return {
    name: command.name(),
    description: command.description(),
    ...(after !== '' && { after }),
    arguments: command.registeredArguments.map((each) => ({
      flags: `${each.required ? '<' : '['}${each.name()}${each.variadic ? '...' : ''}${each.required ? '>' : ']'}`,
      description: each.description,
      ...(each.argChoices && { choices: each.argChoices }),
    })),
    options: command.options
      .filter(({ long }) => long !== '--version')
      .map((each) => ({
        flags: each.flags,
        description: each.description,
        ...(each.argChoices && { choices: each.argChoices }),
        ...(each.mandatory && { mandatory: true }),
        ...(each.defaultValue !== undefined && { default: each.defaultValue as unknown }),
      })),
    commands: command.commands.filter((each) => each.name() !== 'completion').map(outlineOf),
  };
}

/** The texts that were added to the help of a command. */
export function helpFooter(command: CommandUnknownOpts): string {
  let text = '';
  const write = (more: string) => {
    text += more;
  };
  // Commander keeps them as listeners only; its types have no `emit`.
  (command as unknown as EventEmitter).emit('afterHelp', { error: false, command, write });
  return text.replace(/\n$/, '');
}

function addOutlined(parent: Command, outline: Outline): void {
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
  for (const each of outline.commands) addOutlined(command, each);
}
