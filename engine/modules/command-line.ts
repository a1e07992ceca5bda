import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';
import { type Command, Option } from '@commander-js/extra-typings';
import { UserError } from '../errors.ts';

/** What a command prints: for people, or one JSON object. */
export interface CommandResult {
  /** With --json, the whole of standard output. */
  readonly json: Readonly<Record<string, unknown>>;
  /** Without; empty: nothing, because the command has written to standard output itself. */
  readonly text: string;
}

/** What modules add commands with. */
export interface CommandLine<Instance> {
  /** Where commands are added. */
  readonly program: Command;
  /** The configuration, without opening anything. @throws UserError with every mistake in it */
  readonly config: () => Instance extends { readonly config: infer Config } ? Config : unknown;
  /** Prints what a command did; a mistake of the caller is one message on standard error and exit code 1. */
  readonly run: (json: true | undefined, work: Promise<CommandResult>) => Promise<void>;
  /** Opens the instance, does some work, and closes it. @throws UserError where it cannot be opened */
  readonly withInstance: <T>(work: (instance: Instance) => Promise<T>) => Promise<T>;
}

/** The option that every command has. */
export const jsonResult = () => new Option('--json', 'print one JSON object and nothing else');

/** The option of commands that are about one organization. */
export const organizationOption = () => new Option('--org <slug>', 'the organization').makeOptionMandatory();

/** Rows as lines with aligned columns, a line of titles first. */
export function formatTable(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const [head = '', ...lines] = [titles, ...rows].map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return [styleText('bold', head, { stream: process.stdout }), ...lines].join('\n');
}

/**
 * Asks for the name of what is to be destroyed, unless it is given.
 * @param given what `--yes` says
 * @throws UserError when it is another name, or nobody is there to ask
 */
export async function confirm(name: string, question: string, given: string | undefined): Promise<void> {
  if (given === undefined && !process.stdin.isTTY) {
    throw new UserError(`nobody can be asked here: to confirm, add --yes ${name}`);
  }
  const answer = given ?? (await asked(`${question}\nType ${name} to confirm: `));
  if (answer.trim() !== name) throw new UserError(`"${answer}" is not "${name}": nothing was changed`);
}

async function asked(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await terminal.question(question);
  } finally {
    terminal.close();
  }
}

/** The first line of standard input, once that is closed: secrets come so, because arguments are seen by everybody. */
export async function firstLineOfInput(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8').split(/\r?\n/)[0] ?? '';
}
