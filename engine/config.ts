// Config: environment -> frozen Config, checked once, all mistakes at once. The only reader of process.env.
// May import errors, the database's address.
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Address, isAddress, parseAddress } from './database/address.ts';
import { UserError } from './errors.ts';

/** The instance's settings. */
export interface Config {
  /** Address to listen on. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Where PostgreSQL is; undefined means the embedded database. */
  readonly databaseAddress: Address | undefined;
  /** Whether a pooler that shares connections is in between; undefined: found out at start. */
  readonly databasePooler: boolean | undefined;
  /** Folder of the embedded database. */
  readonly dataFolder: string;
  /** Folder of resource definitions. */
  readonly resources: string;
  /** Folder of migrations. */
  readonly migrations: string;
  /** Folder of the demo organization's records. */
  readonly samples: string;
  /** Whether starting applies migrations; the embedded database always does. */
  readonly migrateOnStart: boolean;
  /** What API keys begin with. */
  readonly keyPrefix: string;
  /** Connections in the pool. */
  readonly pool: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
  /** Longest list on PostgreSQL. */
  readonly listTimeoutMs: number;
  /** Longest wait for a lock on PostgreSQL. */
  readonly lockTimeoutMs: number;
  /** Bytes of responses, for all organizations together, that wait for their readers before statements are held back. */
  readonly responseBytes: number;
  /** Connections of clients; further ones get 503. */
  readonly maxConnections: number;
  readonly logLevel: string;
  /** Port of /livez and /readyz; undefined: none. 0 takes any free one. */
  readonly adminPort: number | undefined;
  readonly adminHost: string;
  /** How long the service goes on serving after SIGTERM, not ready any more, before it closes. */
  readonly stopDelayMs: number;
  /** Secrets that sign tokens of people; the first signs, all verify. Empty: one is made and kept in the data folder. */
  readonly authSecrets: readonly string[];
  /** A browser session ends when it is not used for so long. */
  readonly sessionIdleMs: number;
  /** A login ends after so long, used or not. */
  readonly sessionMs: number;
  /** File of settings that may change while the instance runs (config.yaml). */
  readonly settingsFile: string;
  /** What `${NAME}` in that file means. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether changes are noted in the organization's activity. */
  readonly audit: boolean;
  /** Proxies in front whose X-Forwarded-For is believed. */
  readonly trustedProxies: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** How one variable is read: its default, and what a given text means (undefined or a UserError: not valid). */
interface Setting<T> {
  readonly fallback: T;
  readonly expected: string;
  readonly read: (text: string) => T | undefined;
}

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

const integer = (fallback: number, min: number, max: number): Setting<number> => ({
  fallback,
  expected: `an integer from ${min} to ${max}`,
  read: (text) => (/^\d{1,9}$/.test(text) && +text >= min && +text <= max ? +text : undefined),
});
const text = (fallback: string): Setting<string> => ({
  fallback,
  expected: 'a text',
  read: (given) => given,
});
const folder = (fallback: string): Setting<string> => ({
  fallback,
  expected: 'a folder',
  read: (given) => resolve(given),
});
const oneOf = <T>(fallback: T, values: Readonly<Record<string, T>>): Setting<T> => ({
  fallback,
  expected: `one of ${Object.keys(values).join(', ')}`,
  read: (given) => (Object.hasOwn(values, given) ? values[given] : undefined),
});
const secrets: Setting<readonly string[]> = {
  fallback: [],
  expected: 'secrets of at least 32 characters, separated by commas',
  read: (given) => {
    const list = given.split(',').map((secret) => secret.trim());
    return list.every((secret) => secret.length >= 32) ? list : undefined;
  },
};
const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Every variable that the service reads. */
export const settings = {
  HOST: text('127.0.0.1'),
  PORT: integer(3000, 0, 65535),
  DATABASE_URL: {
    fallback: undefined,
    expected: 'a PostgreSQL address, such as postgres://user:password@host:5432/name',
    read: (given) => (isAddress(given) ? parseAddress(given) : undefined),
  } satisfies Setting<Address | undefined>,
  DATA_DIR: folder(join(process.cwd(), 'data')),
  RESOURCES_DIR: folder(join(root, 'resources')),
  MIGRATIONS_DIR: folder(join(root, 'migrations')),
  SAMPLES_DIR: folder(join(root, 'samples')),
  MIGRATE_ON_START: oneOf(false, { true: true, false: false }),
  KEY_PREFIX: {
    fallback: 'crm_',
    expected: 'lower-case letters and digits, then "_", such as crm_',
    read: (given) => (/^[a-z][a-z0-9]{0,15}_$/.test(given) ? given : undefined),
  } satisfies Setting<string>,
  DATABASE_POOLER: oneOf<boolean | undefined>(undefined, { transaction: true, none: false }),
  DATABASE_POOL: integer(10, 1, 1000),
  DATABASE_CONNECT_TIMEOUT_MS: integer(2000, 1, 600_000),
  DATABASE_STATEMENT_TIMEOUT_MS: integer(5000, 1, 600_000),
  DATABASE_LIST_TIMEOUT_MS: integer(2000, 1, 600_000),
  DATABASE_LOCK_TIMEOUT_MS: integer(2000, 1, 600_000),
  RESPONSE_BUFFER_MB: integer(64, 1, 65_536),
  MAX_CONNECTIONS: integer(5000, 1, 1_000_000),
  CRM_CONFIG: { ...folder(join(root, 'config.yaml')), expected: 'a file' },
  AUTH_SECRETS: secrets,
  SESSION_IDLE_MINUTES: integer(30, 1, 525_600),
  SESSION_HOURS: integer(12, 1, 8760),
  AUDIT: oneOf(true, { true: true, false: false }),
  TRUSTED_PROXIES: integer(0, 0, 10),
  ADMIN_PORT: { ...integer(0, 0, 65535), fallback: undefined } satisfies Setting<number | undefined>,
  ADMIN_HOST: text('127.0.0.1'),
  STOP_DELAY_MS: { ...integer(0, 0, 600_000), fallback: undefined } satisfies Setting<number | undefined>,
  LOG_LEVEL: oneOf('warn', Object.fromEntries(levels.map((level) => [level, level]))),
} as const;

/**
 * Reads the environment. Empty variables count as absent.
 * @throws UserError with one line for each variable that is wrong
 */
export function readConfig(environment: Environment = process.env): Config {
  const mistakes: string[] = [];
  const get = <T>(name: keyof typeof settings, setting: Setting<T>): T => {
    const given = environment[name];
    if (given === undefined || given.trim() === '') return setting.fallback;
    try {
      const value = setting.read(given.trim());
      if (value !== undefined) return value;
      mistakes.push(`${name} must be ${setting.expected}`);
    } catch (cause) {
      if (!(cause instanceof UserError)) throw cause;
      mistakes.push(`${name}: ${cause.message}`);
    }
    return setting.fallback;
  };
  const adminPort = get<number | undefined>('ADMIN_PORT', settings.ADMIN_PORT);
  const config: Config = {
    host: get('HOST', settings.HOST),
    port: get('PORT', settings.PORT),
    databaseAddress: get<Address | undefined>('DATABASE_URL', settings.DATABASE_URL),
    databasePooler: get<boolean | undefined>('DATABASE_POOLER', settings.DATABASE_POOLER),
    dataFolder: get('DATA_DIR', settings.DATA_DIR),
    resources: get('RESOURCES_DIR', settings.RESOURCES_DIR),
    migrations: get('MIGRATIONS_DIR', settings.MIGRATIONS_DIR),
    samples: get('SAMPLES_DIR', settings.SAMPLES_DIR),
    migrateOnStart: get('MIGRATE_ON_START', settings.MIGRATE_ON_START),
    keyPrefix: get('KEY_PREFIX', settings.KEY_PREFIX),
    pool: get('DATABASE_POOL', settings.DATABASE_POOL),
    connectTimeoutMs: get('DATABASE_CONNECT_TIMEOUT_MS', settings.DATABASE_CONNECT_TIMEOUT_MS),
    statementTimeoutMs: get('DATABASE_STATEMENT_TIMEOUT_MS', settings.DATABASE_STATEMENT_TIMEOUT_MS),
    listTimeoutMs: get('DATABASE_LIST_TIMEOUT_MS', settings.DATABASE_LIST_TIMEOUT_MS),
    lockTimeoutMs: get('DATABASE_LOCK_TIMEOUT_MS', settings.DATABASE_LOCK_TIMEOUT_MS),
    responseBytes: get('RESPONSE_BUFFER_MB', settings.RESPONSE_BUFFER_MB) * 1024 * 1024,
    maxConnections: get('MAX_CONNECTIONS', settings.MAX_CONNECTIONS),
    settingsFile: get('CRM_CONFIG', settings.CRM_CONFIG),
    environment,
    authSecrets: get('AUTH_SECRETS', settings.AUTH_SECRETS),
    sessionIdleMs: get('SESSION_IDLE_MINUTES', settings.SESSION_IDLE_MINUTES) * 60_000,
    sessionMs: get('SESSION_HOURS', settings.SESSION_HOURS) * 3_600_000,
    audit: get('AUDIT', settings.AUDIT),
    trustedProxies: get('TRUSTED_PROXIES', settings.TRUSTED_PROXIES),
    logLevel: get('LOG_LEVEL', settings.LOG_LEVEL),
    adminPort,
    adminHost: get('ADMIN_HOST', settings.ADMIN_HOST),
    // Where nobody can see that the service is not ready, waiting is of no use.
    stopDelayMs:
      get<number | undefined>('STOP_DELAY_MS', settings.STOP_DELAY_MS) ??
      (adminPort === undefined ? 0 : 2000),
  };
  if (mistakes.length > 0) throw new UserError(mistakes.join('\n'));
  return Object.freeze(config);
}
