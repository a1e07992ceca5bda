import pg from 'pg';
import type { SessionTarget } from './address.ts';
import { createClientPool } from './client-pool.ts';
import type { ConnectionLoad, ReadServer } from './database.ts';
import { connections, processShare } from './limits.ts';
import { runNamed } from './named-statements.ts';
import { pipelines } from './pipelines.ts';
import type { UsableServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';

/** Time limits of a pipelined statement and of its waits for locks, in milliseconds. */
const [shortMs, shortLockMs] = [250, 50];
/** Additional time that the server has to report that it ended a statement, in milliseconds. */
const graceMs = 500;

/** Connections to one server for reads: a pool for lists, and pipelines for short statements. */
export interface ReadPool extends ReadServer {
  /** Pool for lists. */
  readonly pool: pg.Pool;
  /** Returns the pool's load. */
  readonly load: () => ConnectionLoad;
  /** Closes all connections after their work; resolves when they are closed. */
  readonly close: () => Promise<void>;
  /** Cancels and disconnects the pool's current connections. Later ones are not affected. */
  readonly cutAll: () => Promise<void>;
}

/** Opens the pool. @param options options of the primary's pool, whose types and defaults are shared */
export function openReadPool(
  config: DatabaseConfig,
  { route, pooled, login }: UsableServer,
  target: SessionTarget,
  options: pg.PoolConfig,
): ReadPool {
  const { pool, listTimeoutMs, statementTimeoutMs } = config;
  const becameReadOnly = () => short?.renew();
  const clients = (limitMs: number) =>
    createClientPool({ route, target, statementTimeoutMs: limitMs, cancels: pooled, becameReadOnly });
  // Missing parts of the credentials are not inherited from another server.
  const shared = { ...options, options: undefined, application_name: undefined };
  const limitMs = Math.min(listTimeoutMs, statementTimeoutMs || listTimeoutMs);
  const listClients = clients(limitMs);
  const lists = new pg.Pool({
    ...shared,
    ...login(limitMs),
    Client: listClients.Client,
    max: connections(processShare(pool, config)).lists,
  });
  // A connection that breaks while idle is replaced on next use.
  lists.on('error', () => {});
  // A slower statement runs in a pool, where others do not wait for it.
  const shortLimitMs = Math.min(shortMs, limitMs);
  const shortClients = clients(shortLimitMs);
  const openShort = async () => {
    const client = new shortClients.Client({ ...shared, ...login(shortLimitMs, shortLockMs) });
    await client.connect();
    return client;
  };
  // A pooler runs each statement on any of its connections, so statements must be unnamed.
  const short = pooled ? undefined : pipelines(openShort, shortLimitMs + graceMs);
  return {
    pipelines: short,
    pool: lists,
    run: (statement) => runNamed(lists, pooled ? { ...statement, name: '' } : statement),
    load: () => poolLoad('lists', lists),
    close: async () => {
      short?.close();
      await lists.end();
    },
    cutAll: async () => {
      short?.renew();
      await Promise.all([listClients.cutAll(), shortClients.cutAll()]);
    },
  };
}

/** Returns a pool's load. */
export const poolLoad = (
  pool: ConnectionLoad['pool'],
  { totalCount, idleCount, waitingCount, options }: pg.Pool,
): ConnectionLoad => ({
  pool,
  inUse: totalCount - idleCount,
  idle: idleCount,
  waiting: waitingCount,
  limit: options.max ?? 10,
});
