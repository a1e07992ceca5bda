import { hash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { link, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { fileReason, UserError } from '../../../engine/errors.ts';

/** Version of the backup format that this code writes and reads. */
export const formatVersion = 1;

/** A table in a backup, with its columns in the same order as the values in a row. */
export interface StoredTable {
  readonly name: string;
  readonly columns: readonly (readonly [name: string, type: string])[];
}

/** The first line of a backup, which describes its contents. */
export interface Manifest {
  /** {@link formatVersion}. */
  readonly crm_backup: number;
  readonly made_at: string;
  /** Names of the migrations applied to the database. */
  readonly migrations: readonly string[];
  /**
   * Identifiers for the instance's secrets that do not reveal them. Encrypted values can be decrypted only
   * with one of these secrets.
   */
  readonly secrets: readonly string[];
  /** The instance's generated secret. Absent if AUTH_SECRETS is set. */
  readonly auth_secret?: string;
  readonly tables: readonly StoredTable[];
}

/** A table's row count, and a digest that does not depend on the order of the rows. */
export interface Count {
  readonly rows: number;
  readonly digest: string;
}

/** The last line of a backup, used to verify the lines before it. */
export interface BackupEnd {
  readonly end: {
    readonly tables: Readonly<Record<string, Count>>;
    /**
     * The last sequence value of each identity column, keyed by `table.column`, and whether the value has been
     * assigned.
     */
    readonly sequences: Readonly<Record<string, readonly [last: string, isUsed: boolean]>>;
    /** SHA-256 digest of all previous lines, in hex. */
    readonly sha256: string;
  };
}

/** A backup's lines, in batches: the manifest, each table's name and rows, and the end. */
export type BackupLines = AsyncIterable<readonly string[]>;

/** Returns the line that precedes a table's rows. */
export const tableLine = (table: string): string => JSON.stringify({ table });

/** Counts rows and sums their digests. */
export class Counter {
  #rows = 0;
  #sum = 0n;

  add(row: string): void {
    this.#rows++;
    // The sum of the 128-bit hashes does not depend on their order, and two equal rows do not cancel each
    // other out, as they would with XOR.
    this.#sum += BigInt(`0x${hash('sha256', row, 'hex').slice(0, 32)}`);
  }

  get count(): Count {
    return { rows: this.#rows, digest: BigInt.asUintN(128, this.#sum).toString(16).padStart(32, '0') };
  }
}

/** Creates the error for an incomplete backup file. */
export const incompleteBackup = (reason: string): UserError =>
  new UserError(`it is not a complete backup: ${reason}`);

/** Parses the manifest in the first line. @throws UserError if it is invalid or has another version */
export function parseManifest(line: string): Manifest {
  const manifest = parseLine(line) as Partial<Manifest> | null;
  const version = manifest?.crm_backup;
  if (manifest === null || typeof version !== 'number')
    throw incompleteBackup('its first line is not a backup manifest');
  if (version !== formatVersion) {
    throw new UserError(
      `it has format ${version}, but this version reads format ${formatVersion}. Restore it with the version that created it.`,
    );
  }
  return manifest as Manifest;
}

/** Parses a line as JSON. @throws UserError if the line is damaged */
export function parseLine(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    throw incompleteBackup('a line is damaged');
  }
}

/** Compression level. Level 6 takes twice as long and saves only 5%. */
const level = 3;
/** Prefix and suffix added to the file name until the file is complete. */
const partialName = { prefix: '.', suffix: '.partial' } as const;
/** Error codes returned by file systems without hard links, for example some network storage. */
const noLinkCodes = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'];

/**
 * Writes a backup to a new file that only its owner can read. The file gets its final name once it is
 * complete and on disk.
 * @param write receives a function that writes lines
 * @param check receives the path of the complete file before it gets its final name
 * @returns the size in bytes
 * @throws UserError if the file already exists or cannot be written; no incomplete file is left behind
 */
export async function writeBackup(
  file: string,
  write: (save: (lines: BackupLines) => Promise<void>) => Promise<void>,
  check: (path: string) => Promise<unknown>,
): Promise<number> {
  if (existsSync(file)) throw new UserError(`${file} cannot be written because it already exists`);
  const name = `${partialName.prefix}${basename(file)}.${randomBytes(4).toString('hex')}${partialName.suffix}`;
  const path = join(dirname(file), name);
  try {
    await write((lines) =>
      pipeline(
        Readable.from(batchTexts(lines)),
        createGzip({ level }),
        // The file is flushed to disk before it is closed.
        createWriteStream(path, { flags: 'wx', mode: 0o600, flush: true }),
      ),
    );
    await check(path);
    await publish(path, file);
    const { size } = await stat(file);
    return size;
  } catch (cause) {
    if (typeof (cause as NodeJS.ErrnoException).syscall !== 'string') throw cause;
    throw new UserError(`${file} cannot be written: ${fileReason(cause)}`, { cause });
  } finally {
    await rm(path, { force: true });
  }
}

/** Gives a complete file its final name, without replacing an existing file. */
async function publish(path: string, file: string): Promise<void> {
  try {
    await link(path, file);
  } catch (cause) {
    if (!noLinkCodes.includes((cause as NodeJS.ErrnoException).code ?? '') || existsSync(file)) throw cause;
    await rename(path, file);
  }
  const folder = await open(dirname(file), 'r');
  await folder.sync().finally(() => folder.close());
}

async function* batchTexts(lines: BackupLines): AsyncGenerator<string> {
  for await (const batch of lines) yield `${batch.join('\n')}\n`;
}

const newline = 0x0a;

/** Reads a backup file's lines. @throws UserError if the file cannot be read or is damaged */
export async function* linesOf(file: string): BackupLines {
  let rest: Buffer = Buffer.alloc(0);
  try {
    const source = createReadStream(file, { highWaterMark: 256 * 1024 });
    const gunzip = createGunzip({ chunkSize: 256 * 1024 });
    // A read error must also end the loop over the decompressed data.
    source.on('error', (cause) => gunzip.destroy(cause));
    for await (const chunk of source.pipe(gunzip) as AsyncIterable<Buffer>) {
      const lines: string[] = [];
      let start = 0;
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
        const line = chunk.subarray(start, end);
        lines.push((rest.length === 0 ? line : Buffer.concat([rest, line])).toString('utf8'));
        rest = Buffer.alloc(0);
        start = end + 1;
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
