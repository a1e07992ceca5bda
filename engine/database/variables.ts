import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import {
  choiceVariable,
  instanceFolder,
  integerVariable,
  pathVariable,
  shippedFolder,
  type Variable,
  type VariableValues,
} from '../config/index.ts';
import { fileReason, UserError } from '../errors.ts';
import { type Address, describeAddress, isAddress, parseAddress } from './address.ts';

const duration = [1, 600_000] as const;
const maxWorkers = 128;

/** Environment variables that configure the database. */
export const databaseVariables = {
  /** Connection URI of PostgreSQL; undefined selects the embedded database. */
  databaseAddress: {
    name: 'DATABASE_URL',
    rejectsBlank: true,
    fallback: undefined,
    expected: 'a PostgreSQL URL, such as postgres://user:password@host:5432/name',
    show: (address) => (address === undefined ? '' : describeAddress(address)),
    read: (text) => (isAddress(text) ? parseAddress(text) : undefined),
  } satisfies Variable<Address | undefined> as Variable<Address | undefined>,
  /** Connection URIs of read replicas. */
  replicaAddresses: {
    name: 'DATABASE_REPLICA_URLS',
    fallback: [],
    expected: 'PostgreSQL URLs, separated by commas',
    show: (addresses) => addresses.map(describeAddress).join(', '),
    read: (text) => {
      // A URI can contain several hosts, which are also separated by commas.
      const uris = text.split(/\s*,\s*(?=postgres(?:ql)?:)/);
      return uris.every(isAddress) ? uris.map(parseAddress) : undefined;
    },
  } satisfies Variable<readonly Address[]> as Variable<readonly Address[]>,
  /** Maximum replica lag for callers who cannot write, in milliseconds. */
  replicaLagMs: integerVariable('DATABASE_REPLICA_LAG_MS', 1000, [300, 600_000]),
  /** File with the database password, read for each connection; undefined if the URI contains it. */
  passwordFile: {
    name: 'DATABASE_PASSWORD_FILE',
    fallback: undefined,
    expected: 'a file',
    read: (text) => {
      const file = resolve(text);
      let password: string;
      try {
        password = readFileSync(file, 'utf8');
      } catch (cause) {
        throw new UserError(`${file} cannot be read: ${fileReason(cause)}`, { cause });
      }
      if (password.trim() === '') throw new UserError(`${file} is empty`);
      return file;
    },
  } satisfies Variable<string | undefined> as Variable<string | undefined>,
  /** Whether a pooler shares the connections; undefined to detect it at startup. */
  databasePooler: choiceVariable<boolean | undefined>('DATABASE_POOLER', undefined, {
    transaction: true,
    none: false,
  }),
  /** Folder that contains the embedded database. */
  dataFolder: pathVariable('DATA_DIR', () => join(process.cwd(), 'data'), 'a folder', { rejectsBlank: true }),
  /** Folder that contains the migrations. */
  migrations: pathVariable('MIGRATIONS_DIR', () => join(instanceFolder(), 'migrations'), 'a folder'),
  /** Folder that contains the platform's migrations; null if they are in `migrations`. */
  platformMigrations: shippedFolder('MIGRATIONS_DIR', 'migrations'),
  /** Number of connections in the pool. */
  pool: integerVariable('DATABASE_POOL', 16, [1, 1000]),
  /** Number of processes that serve the instance and share its pool and limits. */
  workers: {
    name: 'WORKERS',
    fallback: 1,
    expected: `an integer from 1 to ${maxWorkers}, or auto for one worker per core`,
    read: (text) => {
      if (text === 'auto') return Math.min(availableParallelism(), maxWorkers);
      return /^\d{1,3}$/.test(text) && +text >= 1 && +text <= maxWorkers ? +text : undefined;
    },
  } satisfies Variable<number> as Variable<number>,
  connectTimeoutMs: integerVariable('DATABASE_CONNECT_TIMEOUT_MS', 2000, duration),
  statementTimeoutMs: integerVariable('DATABASE_STATEMENT_TIMEOUT_MS', 5000, duration),
  /** Time limit for a list on PostgreSQL, in milliseconds. */
  listTimeoutMs: integerVariable('DATABASE_LIST_TIMEOUT_MS', 2000, duration),
  /** Maximum wait for a lock on PostgreSQL, in milliseconds. */
  lockTimeoutMs: integerVariable('DATABASE_LOCK_TIMEOUT_MS', 2000, duration),
  /** Maximum total size of unread responses, in bytes. Statements wait while the limit is exceeded. */
  responseBytes: integerVariable('RESPONSE_BUFFER_MB', 64, [1, 65_536], 1024 * 1024),
};

/** Configuration of the database connection and its limits. */
export interface DatabaseConfig extends VariableValues<typeof databaseVariables> {
  /** Schema with views for nodes with an older model. It comes first in the search path. */
  readonly views?: string;
  /**
   * Whether this process serves the embedded database to requests and, through a socket in the data folder,
   * to commands.
   */
  readonly serves?: boolean;
}
