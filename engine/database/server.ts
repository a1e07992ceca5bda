import type { ClientConfig } from 'pg';
import { UserError } from '../errors.ts';
import { type Address, describeAddress } from './address.ts';
import { type Route, reason, route } from './route.ts';
import type { DatabaseConfig } from './variables.ts';

/** A server that can be used, and how. */
export interface FoundServer {
  readonly route: Route;
  /** Whether a pooler is in between that gives each transaction any of its connections. */
  readonly pooled: boolean;
  /** What a connection needs besides the way. @param statementTimeoutMs how long its statements may take; 0: no limit */
  readonly login: (statementTimeoutMs: number) => ClientConfig;
}

/**
 * Connects once: is there a server to use, and is a pooler in between?
 * @param connectionTimeoutMillis how long connecting may take
 * @throws UserError in one line when there is no such server
 */
export async function findServer(
  config: DatabaseConfig,
  address: Address,
  connectionTimeoutMillis: number,
): Promise<FoundServer> {
  // Empty texts make pg look into the environment: PGUSER, PGPASSWORD, PGDATABASE.
  const { user = '', password = '', database = '', applicationName, options } = address;
  const common: ClientConfig = {
    user,
    password,
    database,
    ...(applicationName !== undefined && { application_name: applicationName }),
    connectionTimeoutMillis,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
  const server = (pooled: boolean): FoundServer => {
    const login: FoundServer['login'] = (statementTimeoutMs) => {
      const given = [...(pooled ? [] : settings(config, statementTimeoutMs)), options ?? ''].join(' ').trim();
      return given === '' ? common : { ...common, options: given };
    };
    return {
      pooled,
      login,
      route: route(address, login(config.statementTimeoutMs), connectionTimeoutMillis),
    };
  };
  try {
    if (config.databasePooler !== true) {
      const direct = server(false);
      const unknown = config.databasePooler === undefined;
      const pooled = await direct.route
        .find()
        .then((found) => found.pooled, unknown ? refusesSettings : undefined);
      if (!unknown || !pooled) return direct;
    }
    const pooler = server(true);
    await pooler.route.find();
    return pooler;
  } catch (cause) {
    throw new UserError(`the database at ${describeAddress(address)} does not answer: ${reason(cause)}`, {
      cause,
    });
  }
}

/** A pooler refuses settings for connections that it shares. @throws what is any other error */
function refusesSettings(cause: unknown): true {
  const { code, message } = cause as { code?: string; message?: string };
  if (code === '08P01' && String(message).includes('startup parameter')) return true;
  throw cause;
}

/** Settings of a connection, as the command line of its server process. */
const settings = ({ lockTimeoutMs }: DatabaseConfig, statementTimeoutMs: number): readonly string[] =>
  [
    `statement_timeout=${statementTimeoutMs}`,
    `lock_timeout=${lockTimeoutMs}`,
    'idle_in_transaction_session_timeout=10000',
    // Planning a list takes longer than running it, and each statement has one good plan.
    'plan_cache_mode=force_generic_plan',
    // One statement takes one core, whatever it asks.
    'max_parallel_workers_per_gather=0',
    'datestyle=ISO',
  ].map((setting) => `-c ${setting}`);
