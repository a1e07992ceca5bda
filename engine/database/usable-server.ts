import { readFile } from 'node:fs/promises';
import type { ClientConfig } from 'pg';
import { fileReason, UserError } from '../errors.ts';
import { type Address, describeAddress } from './address.ts';
import { sqlState, tooManyConnections, unreadablePassword } from './failures.ts';
import { connectionErrorText, type Route, route } from './route.ts';
import type { DatabaseConfig } from './variables.ts';

/** SQLSTATEs for connection failures. */
const noDatabase = '3D000';
const wrongPassword = '28P01';

/** A usable server and its connection options. */
export interface UsableServer {
  readonly route: Route;
  /** Whether a pooler is in use, which can run each transaction on a different connection. */
  readonly pooled: boolean;
  /**
   * Returns the connection options except host and TLS.
   * @param statementTimeoutMs time limit for statements; 0 disables it
   * @param lockTimeoutMs time limit for lock waits; the configured limit by default
   */
  readonly login: (statementTimeoutMs: number, lockTimeoutMs?: number) => ClientConfig;
}

/**
 * Connects once to find a usable server and to detect a pooler.
 * @param connectionTimeoutMillis time limit for connecting
 * @throws UserError with a one-line message if no server is usable
 */
export async function findServer(
  config: DatabaseConfig,
  address: Address,
  connectionTimeoutMillis: number,
): Promise<UsableServer> {
  // Without these keys, pg would read PGUSER, PGPASSWORD and PGDATABASE from the environment.
  const { user = '', password = '', database = '', applicationName, options } = address;
  const { passwordFile } = config;
  const common: ClientConfig = {
    user,
    // The password file is read for each connection, because the password can be rotated.
    password: passwordFile === undefined ? password : () => readPassword(passwordFile),
    database,
    ...(applicationName !== undefined && { application_name: applicationName }),
    connectionTimeoutMillis,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
  let searchPath: string | undefined;
  const server = (pooled: boolean): UsableServer => {
    const login: UsableServer['login'] = (statementTimeoutMs, lockTimeoutMs = config.lockTimeoutMs) => {
      const parameters = pooled ? [] : sessionParameters(statementTimeoutMs, lockTimeoutMs);
      // If a parameter is set repeatedly, the last value applies.
      const commandLine = [...parameters, options ?? '', viewsFirst(config, searchPath)].join(' ').trim();
      return commandLine === '' ? common : { ...common, options: commandLine };
    };
    return {
      pooled,
      login,
      route: route(address, login(config.statementTimeoutMs), connectionTimeoutMillis),
    };
  };
  try {
    if (config.databasePooler !== true) {
      const detects = config.databasePooler === undefined;
      const direct = server(false);
      const result = await direct.route.find().catch((cause) => {
        if (!detects || !rejectsParameters(cause)) throw cause;
      });
      if (result !== undefined && (!detects || !result.pooled)) {
        searchPath = result.searchPath;
        return direct;
      }
    }
    const pooler = server(true);
    await pooler.route.find();
    return pooler;
  } catch (cause) {
    throw new UserError(`the database at ${describeAddress(address)} ${failureText(cause, passwordFile)}`, {
      cause,
    });
  }
}

/**
 * Reads the password from a file, without the trailing line break.
 * @throws Error if the file cannot be read; callers treat it as a lost connection
 */
async function readPassword(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).replace(/\r?\n$/, '');
  } catch (cause) {
    throw new Error(`${unreadablePassword} ${file} cannot be read: ${fileReason(cause)}`, { cause });
  }
}

/** Explains why a server is unusable, based on its error. */
function failureText(cause: unknown, passwordFile: string | undefined): string {
  const state = sqlState(cause);
  if (state === noDatabase)
    return `does not exist: create it, or correct DATABASE_URL (${connectionErrorText(cause)})`;
  if (state === wrongPassword) {
    const where =
      passwordFile === undefined ? 'DATABASE_URL' : `DATABASE_URL or the password in ${passwordFile}`;
    return `rejects the login: correct ${where} (${connectionErrorText(cause)})`;
  }
  if (state === tooManyConnections)
    return `has no connections left for this login: raise max_connections or the connection limit of the role or database, lower DATABASE_POOL or WORKERS, or disconnect other clients (${connectionErrorText(cause)})`;
  return `does not respond: ${connectionErrorText(cause)}`;
}

/** Returns whether a pooler rejected session parameters for shared connections. */
function rejectsParameters(cause: unknown): boolean {
  const { code, message } = cause as { code?: string; message?: string };
  return code === '08P01' && String(message).includes('startup parameter');
}

/** Returns the session parameter that puts the schema with views first in the search path. */
const viewsFirst = ({ views }: DatabaseConfig, searchPath: string | undefined): string =>
  views === undefined || searchPath === undefined
    ? ''
    : `-c search_path=${`${views},${searchPath}`.replace(/[\\\s]/g, '\\$&')}`;

/** Returns session parameters as command-line options for the server process. */
const sessionParameters = (statementTimeoutMs: number, lockTimeoutMs: number): readonly string[] =>
  [
    `statement_timeout=${statementTimeoutMs}`,
    `lock_timeout=${lockTimeoutMs}`,
    'idle_in_transaction_session_timeout=10000',
    // Planning a list takes longer than running it, and each statement has a single good plan.
    'plan_cache_mode=force_generic_plan',
    // Limits a statement to one core.
    'max_parallel_workers_per_gather=0',
    // JIT compilation costs more time than it can save for a page of records, and it is repeated for every
    // execution.
    'jit=off',
    'datestyle=ISO',
  ].map((parameter) => `-c ${parameter}`);
