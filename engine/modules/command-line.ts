import { createWriteStream, existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { styleText } from 'node:util';
import { type Command, Option } from '@commander-js/extra-typings';
import type { Database } from '../database/index.ts';
import { type Actor, type AuditConfig, commandLine } from '../effects/index.ts';
import { fileReason, formatCount, UserError } from '../errors.ts';
import { organizationId, type Tables, transaction } from '../tables/index.ts';

/** Destination for the output of an export command. */
export interface CommandOutput {
  /** File to write to, or undefined for standard output. */
  readonly file: string | undefined;
  /** Whether to replace an existing file. */
  readonly force?: true | undefined;
  /** Whether --json was passed, which reserves standard output. */
  readonly isJson: boolean;
}

/** Checks that the output can be written. @throws UserError if it cannot */
export function assertOutputWritable({ file, force, isJson }: CommandOutput): void {
  if (file === undefined && isJson) throw new UserError('--json requires a file to write to.');
  if (file !== undefined && existsSync(file) && force !== true)
    throw new UserError(`${file} already exists. Pass --force to replace it.`);
}

/**
 * Writes a stream to standard output, or to a file that only its owner can read. The file is named
 * `<file>.partial` until it is complete.
 * @returns the number of bytes written
 * @throws UserError if the file cannot be written
 */
export async function writeOutput(stream: Readable, { file }: Pick<CommandOutput, 'file'>): Promise<number> {
  const partial = `${file}.partial`;
  try {
    if (file === undefined) return await writeTo(stream, undefined);
    const bytes = await writeTo(stream, createWriteStream(partial, { flags: 'w', mode: 0o600 }));
    await rename(partial, file);
    return bytes;
  } catch (cause) {
    if (file !== undefined) await rm(partial, { force: true });
    const { code, path } = cause as NodeJS.ErrnoException;
    if (code !== undefined && path !== undefined)
      throw new UserError(`${path}: ${fileReason(cause)}`, { cause });
    throw cause;
  }
}

/** Writes to the target, or to standard output if it is undefined. @returns the number of bytes written */
async function writeTo(stream: Readable, target: NodeJS.WritableStream | undefined): Promise<number> {
  let bytes = 0;
  const show = showProgress('bytes');
  stream.on('data', (chunk: Buffer | string) => {
    bytes += Buffer.byteLength(chunk);
    show(bytes);
  });
  await pipeline(stream, target ?? process.stdout, { end: target !== undefined });
  return bytes;
}

/** Returns a function that shows progress on a terminal, at most four times a second. */
export function showProgress(unit: string): (count: number) => void {
  if (!process.stderr.isTTY) return () => {};
  let last = 0;
  return (count) => {
    if (performance.now() - last < 250) return;
    last = performance.now();
    process.stderr.write(`\r${formatCount(count)} ${unit}\r`);
  };
}

/** A command's output, both as text and as a JSON object. */
export interface CommandResult {
  /** The only output on standard output with --json. */
  readonly json: Readonly<Record<string, unknown>>;
  /** Standard output without --json. Empty if the command has already written its output. */
  readonly text: string;
}

/** The interface through which modules add commands. */
export interface CommandLine<Instance> {
  /** The program to which commands are added. */
  readonly program: Command;
  /** Returns the configuration without opening the instance. @throws UserError with every configuration issue */
  readonly config: () => Instance extends { readonly config: infer Config } ? Config : unknown;
  /** Prints a command's result. On a UserError, prints its message to standard error and exits with 1. */
  readonly run: (json: true | undefined, work: Promise<CommandResult>) => Promise<void>;
  /** Opens the instance, runs work, and closes the instance. @throws UserError if it cannot be opened */
  readonly withInstance: <T>(work: (instance: Instance) => Promise<T>) => Promise<T>;
}

/** Creates the `--json` option that every command has. */
export const jsonResult = () => new Option('--json', 'print one JSON object');

/** Creates the `--org` option of commands that work on one organization. */
export const organizationOption = () => new Option('--org <slug>', 'the organization').makeOptionMandatory();

/** The organization on which a command works, and the transaction in which it runs. */
export interface OrganizationContext<Instance> {
  /** Does not include the database: the embedded database would wait for the transaction to end. */
  readonly instance: Omit<Instance, 'database'>;
  readonly tables: Tables;
  readonly actor: Actor;
  /** ID of the organization. */
  readonly organization: string;
}

/** Runs a command with {@link organizationOption} in a transaction, and prints its result. */
export const inOrganization = <
  Instance extends { readonly config: AuditConfig; readonly database: Database },
>(
  { run, withInstance }: CommandLine<Instance>,
  { org, json }: { readonly org: string; readonly json?: true | undefined },
  work: (context: OrganizationContext<Instance>) => Promise<CommandResult>,
): Promise<void> =>
  run(
    json,
    withInstance((instance) =>
      transaction(instance.database, async (tables) => {
        const organization = await organizationId(tables, org);
        return work({ instance, tables, organization, actor: commandLine(instance.config) });
      }),
    ),
  );

/** Formats rows as lines with aligned columns, below a header line with the titles. */
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
 * Asks the user to type the name of the object to be destroyed, unless `--yes` was passed.
 * @param confirmation value of `--yes`
 * @throws UserError if the names differ, or if standard input is not a terminal
 */
export async function confirm(
  name: string,
  question: string,
  confirmation: string | undefined,
): Promise<void> {
  if (confirmation === undefined && !process.stdin.isTTY) {
    throw new UserError(
      `Cannot prompt for confirmation: standard input is not a terminal. Pass --yes ${name} to confirm.`,
    );
  }
  const answer = confirmation ?? (await prompt(`${question}\nType ${name} to confirm: `));
  if (answer.trim() !== name)
    throw new UserError(`"${answer}" does not match "${name}". Nothing was changed.`);
}

async function prompt(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await terminal.question(question);
  } finally {
    terminal.close();
  }
}

/**
 * Waits until standard input closes and returns its first line. Secrets are passed through standard input
 * because other users of the machine can see command-line arguments.
 */
export async function firstLineOfInput(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8').split(/\r?\n/)[0] ?? '';
}
