import { createWriteStream, existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileReason, UserError } from '../errors.ts';

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
 * Writes a stream to standard output, or to a file that only its owner can read. The file is renamed from
 * `<file>.partial` when it is complete.
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

/** Writes to a target, or to standard output if the target is undefined. @returns the number of bytes written */
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
    process.stderr.write(`\r${count.toLocaleString('en')} ${unit}\r`);
  };
}
