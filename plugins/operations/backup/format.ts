import { hash } from 'node:crypto';
import { UserError } from '../../../engine/errors.ts';

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
   * Identifiers for the instance's secrets, which do not reveal the secrets. Encrypted values can be decrypted only
   * with one of these secrets.
   */
  readonly secrets: readonly string[];
  /** The instance's generated secret. Absent if AUTH_SECRETS is set. */
  readonly auth_secret?: string;
  readonly tables: readonly StoredTable[];
}

/** Number of rows in a table, and a digest that does not depend on their order. */
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

/** The lines of a backup, in batches: the manifest, the name and rows of each table, and the end. */
export type BackupLines = AsyncIterable<readonly string[]>;

/** Returns the line that precedes the rows of a table. */
export const tableLine = (table: string): string => JSON.stringify({ table });

/** Counts rows and adds up their digests. */
export class Counter {
  #rows = 0;
  #sum = 0n;

  add(row: string): void {
    this.#rows++;
    // A sum of 128-bit hashes does not depend on the order, and two equal rows do not cancel each other out, as they
    // would with XOR.
    this.#sum += BigInt(`0x${hash('sha256', row, 'hex').slice(0, 32)}`);
  }

  get count(): Count {
    return { rows: this.#rows, digest: BigInt.asUintN(128, this.#sum).toString(16).padStart(32, '0') };
  }
}

/** Creates the error for an incomplete backup file. */
export const incompleteBackup = (reason: string): UserError =>
  new UserError(`it is not a complete backup: ${reason}`);

/** Parses the manifest in the first line. @throws UserError if the line is not a manifest or has another format */
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
