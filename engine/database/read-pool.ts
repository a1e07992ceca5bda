import pg from 'pg';
import type { SessionTarget } from './address.ts';
import { createClientPool } from './client-pool.ts';
import type { ConnectionLoad, ReadServer } from './database.ts';
import { connections, processShare } from './limits.ts';
import { runNamed } from './named-statements.ts';
import { pipelines } from './pipelines.ts';
import type { UsableServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';

/** The time limits of a statement that shares its connection, and of its waits for locks, in milliseconds. */
const [shortMs, shortLockMs] = [250, 50];
/** How long the server may take, beyond that limit, to say that it has ended a statement, in milliseconds. */
const graceMs = 500;

/** Connections to one server for statements that read: a pool for lists, and those that short statements share. */
export interface ReadPool extends ReadServer {
  /** The pool for lists. */
  readonly pool: pg.Pool;
  /** How busy the pool is. */
  readonly load: () => ConnectionLoad;
  /** Closes all connections when they are done; resolves then. */
  readonly close: () => Promise<void>;
  /** Cuts those of the pool, after cancelling what they run. Later ones are not affected. */
  readonly cutAll: () => Promise<void>;
}

/** @param options of the primary's pool, whose types and defaults these connections share */
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
  // What a login leaves out is not taken over from another server's.
  const shared = { ...options, options: undefined, application_name: undefined };
  const limitMs = Math.min(listTimeoutMs, statementTimeoutMs || listTimeoutMs);
  const listClients = clients(limitMs);
  const lists = new pg.Pool({
    ...shared,
    ...login(limitMs),
    Client: listClients.Client,
    max: connections(processShare(pool, config)).lists,
  });
  // A connection that breaks while idle is replaced when it is next needed.
  lists.on('error', () => {});
  // A statement that takes longer goes on in a pool, where others do not wait for it.
  const shortLimitMs = Math.min(shortMs, limitMs);
  const shortClients = clients(shortLimitMs);
  const openShort = async () => {
    const client = new shortClients.Client({ ...shared, ...login(shortLimitMs, shortLockMs) });
    await client.connect();
    return client;
  };
  // A pooler runs each statement on any of its connections, so none can be kept under a name there.
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

/** How busy a pool is. */
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
