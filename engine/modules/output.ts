import { createWriteStream, existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileReason, UserError } from '../errors.ts';

/** Where a command writes what it exports. */
export interface CommandOutput {
  /** Standard output if undefined. */
  readonly file: string | undefined;
  /** Whether it replaces a file that is there. */
  readonly force?: true | undefined;
  /** Whether the command was called with --json, which needs standard output for itself. */
  readonly isJson: boolean;
}

/** @throws UserError if the output cannot be written there */
export function assertOutputWritable({ file, force, isJson }: CommandOutput): void {
  if (file === undefined && isJson) throw new UserError('--json needs a file to write to');
  if (file !== undefined && existsSync(file) && force !== true)
    throw new UserError(`${file} is there already; --force replaces it`);
}

/**
 * Writes a stream to standard output, or to a file that only its owner may read and that has its name once it is complete.
 * @returns the bytes written
 * @throws UserError in one line if the file cannot be written, or nobody reads the output
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

/** @param target standard output if undefined */
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

/** Shows progress on a terminal, a few times each second. */
export function showProgress(unit: string): (done: number) => void {
  if (!process.stderr.isTTY) return () => {};
  let last = 0;
  return (done) => {
    if (performance.now() - last < 250) return;
    last = performance.now();
    process.stderr.write(`\r${done.toLocaleString('en')} ${unit}\r`);
  };
}
