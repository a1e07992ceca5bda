import { hash } from 'node:crypto';
import { UserError } from '../../../engine/errors.ts';

/** The version of the format that this code writes and reads. */
export const formatVersion = 1;

/** A table of a backup: its columns with their types, in the order in which rows have their values. */
export interface StoredTable {
  readonly name: string;
  readonly columns: readonly (readonly [name: string, type: string])[];
}

/** The first line of a backup: what follows. */
export interface Manifest {
  /** {@link formatVersion}. */
  readonly crm_backup: number;
  readonly made_at: string;
  /** The migrations that the database had. */
  readonly migrations: readonly string[];
  /** Tell which of the instance's secrets encrypted what is encrypted, without telling them. */
  readonly secrets: readonly string[];
  /** The secret that the instance had generated for itself; absent where AUTH_SECRETS has them. */
  readonly auth_secret?: string;
  readonly tables: readonly StoredTable[];
}

/** Number of rows in a table, and a digest that does not depend on their order. */
export interface Count {
  readonly rows: number;
  readonly digest: string;
}

/** The last line of a backup: what has to be true of the lines before it. */
export interface BackupEnd {
  readonly end: {
    readonly tables: Readonly<Record<string, Count>>;
    /** The last sequence value of each identity column, by `table.column`, and whether it was assigned. */
    readonly sequences: Readonly<Record<string, readonly [last: string, isUsed: boolean]>>;
    /** SHA-256 over all lines before, hex. */
    readonly sha256: string;
  };
}

/** The lines of a backup, some at a time: the manifest, each table's name and its rows, the end. */
export type BackupLines = AsyncIterable<readonly string[]>;

/** A line before the rows of a table. */
export const tableLine = (table: string): string => JSON.stringify({ table });

/** Counts rows and adds up their digests. */
export class Counter {
  #rows = 0;
  #sum = 0n;

  add(row: string): void {
    this.#rows++;
    // The sum of 128 bits each: no order, and two equal rows do not cancel each other out.
    this.#sum += BigInt(`0x${hash('sha256', row, 'hex').slice(0, 32)}`);
  }

  get count(): Count {
    return { rows: this.#rows, digest: BigInt.asUintN(128, this.#sum).toString(16).padStart(32, '0') };
  }
}

/** Creates the error for an incomplete backup file. */
export const incompleteBackup = (why: string): UserError =>
  new UserError(`it is not a complete backup: ${why}`);

/** The manifest in the first line. @throws UserError if it is none, or one of a later format */
export function parseManifest(line: string): Manifest {
  const manifest = parseLine(line) as Partial<Manifest> | null;
  const version = manifest?.crm_backup;
  if (manifest === null || typeof version !== 'number') throw incompleteBackup('it does not begin like one');
  if (version !== formatVersion) {
    throw new UserError(
      `it has format ${version}, and this version reads format ${formatVersion}: restore it with the version that made it`,
    );
  }
  return manifest as Manifest;
}

/** A line as JSON. @throws UserError if it is none */
export function parseLine(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    throw incompleteBackup('a line is damaged');
  }
}
