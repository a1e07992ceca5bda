import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { link, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { fileReason, UserError } from '../../../engine/errors.ts';
import { type BackupLines, incompleteBackup } from './format.ts';

/** How hard gzip tries: the step to 6 costs twice the time and saves 5 %. */
const level = 3;
/** What a file is called until it is whole, by its beginning and end. */
const partial = { prefix: '.', suffix: '.partial' } as const;
/** File systems without hard links, such as those of some network storage. */
const noLinks = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

/**
 * Writes a backup to a file where nothing is, readable by its owner alone. It has its name only once it is whole and on disk.
 * @param make gets what saves lines
 * @param check called with the path of the whole file before it gets its name
 * @returns its size in bytes
 * @throws UserError if something has that name, or the file cannot be written; then nothing is left
 */
export async function writeBackup(
  file: string,
  make: (save: (lines: BackupLines) => Promise<void>) => Promise<void>,
  check: (path: string) => Promise<unknown>,
): Promise<number> {
  if (existsSync(file)) throw new UserError(`${file} cannot be written because it already exists`);
  const name = `${partial.prefix}${basename(file)}.${randomBytes(4).toString('hex')}${partial.suffix}`;
  const path = join(dirname(file), name);
  try {
    await make((lines) =>
      pipeline(
        Readable.from(asText(lines)),
        createGzip({ level }),
        // On disk before it is closed.
        createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true }),
      ),
    );
    await check(path);
    await giveName(path, file);
    const { size } = await stat(file);
    return size;
  } catch (cause) {
    if (typeof (cause as NodeJS.ErrnoException).syscall !== 'string') throw cause;
    throw new UserError(`${file} cannot be written: ${fileReason(cause)}`, { cause });
  } finally {
    await rm(path, { force: true });
  }
}

/** Gives a whole file its name, and never takes it from another. */
async function giveName(path: string, file: string): Promise<void> {
  try {
    await link(path, file);
  } catch (cause) {
    if (!noLinks.includes((cause as NodeJS.ErrnoException).code ?? '') || existsSync(file)) throw cause;
    await rename(path, file);
  }
  const folder = await open(dirname(file), 'r');
  await folder.sync().finally(() => folder.close());
}

async function* asText(lines: BackupLines): AsyncGenerator<string> {
  for await (const batch of lines) yield `${batch.join('\n')}\n`;
}

const newline = 0x0a;

/** The lines of a file. @throws UserError if it cannot be read, or is damaged */
export async function* linesOf(file: string): BackupLines {
  let rest: Buffer = Buffer.alloc(0);
  try {
    const source = createReadStream(file, { highWaterMark: 256 * 1024 });
    const unzipped = createGunzip({ chunkSize: 256 * 1024 });
    // Its failure ends what is read.
    source.on('error', (cause) => unzipped.destroy(cause));
    for await (const chunk of source.pipe(unzipped) as AsyncIterable<Buffer>) {
      const lines: string[] = [];
      let start = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
        const line = chunk.subarray(start, at);
        lines.push((rest.length === 0 ? line : Buffer.concat([rest, line])).toString('utf8'));
        rest = Buffer.alloc(0);
        start = at + 1;
      }
      rest = rest.length === 0 ? chunk.subarray(start) : Buffer.concat([rest, chunk.subarray(start)]);
      yield lines;
    }
  } catch (cause) {
    const { code = '', syscall } = cause as NodeJS.ErrnoException;
    if (code.startsWith('Z_')) throw incompleteBackup('it is cut off or damaged');
    if (syscall === undefined) throw cause;
    throw new UserError(`it cannot be read: ${fileReason(cause)}`, { cause });
  }
  if (rest.length > 0) throw incompleteBackup('its last line is incomplete');
}
