import pg from 'pg';
import type { SessionTarget } from './address.ts';
import { createClientPool } from './client-pool.ts';
import type { ConnectionLoad, Server } from './database.ts';
import { connections, processShare } from './limits.ts';
import { runNamed } from './named-statements.ts';
import { pipelines } from './pipelines.ts';
import type { UsableServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';

/** Time limits for a pipelined statement and for its lock waits, in milliseconds. */
const [pipelinedMs, pipelinedLockMs] = [250, 50];
/** Additional time allowed for the server to report that it cancelled a statement, in milliseconds. */
const graceMs = 500;

/** Connections to one server for reads: a pool for lists, and pipelines for short statements. */
export interface ReadPool extends Server {
  /** Pool for lists. */
  readonly pool: pg.Pool;
  /** Returns the pool's load. */
  readonly load: () => ConnectionLoad;
  /** Closes all connections when their statements have finished. Resolves when they are closed. */
  readonly close: () => Promise<void>;
  /**
   * Cancels statements and disconnects the pool's current connections. Later connections are not affected.
   */
  readonly cancelAll: () => Promise<void>;
  /** Like {@link cancelAll}, but running statements fail immediately, as lost rather than cancelled. */
  readonly abandonAll: () => void;
}

/** Opens the pool. @param options the primary pool's options, whose types and defaults are shared */
export function openReadPool(
  config: DatabaseConfig,
  { route, pooled, login }: UsableServer,
  target: SessionTarget,
  options: pg.PoolConfig,
): ReadPool {
  const { pool, listTimeoutMs, statementTimeoutMs } = config;
  const becameReadOnly = () => readPipelines?.renew();
  const clients = (limitMs: number) =>
    createClientPool({ route, target, statementTimeoutMs: limitMs, cancels: pooled, becameReadOnly });
  // The other server's session options and application name must not be inherited.
  const sharedOptions = { ...options, options: undefined, application_name: undefined };
  const limitMs = Math.min(listTimeoutMs, statementTimeoutMs || listTimeoutMs);
  const listClients = clients(limitMs);
  const lists = new pg.Pool({
    ...sharedOptions,
    ...login(limitMs),
    Client: listClients.Client,
    max: connections(processShare(pool, config)).lists,
  });
  // A connection that fails while idle is replaced on its next use.
  lists.on('error', () => {});
  // Slower statements run in a pool, where other statements do not wait behind them.
  const pipelineLimitMs = Math.min(pipelinedMs, limitMs);
  const pipelineClients = clients(pipelineLimitMs);
  const openPipelined = async () => {
    const client = new pipelineClients.Client({
      ...sharedOptions,
      ...login(pipelineLimitMs, pipelinedLockMs),
    });
    await client.connect();
    return client;
  };
  // A pooler runs each statement on any of its connections, so statements must be unnamed.
  const readPipelines = pooled ? undefined : pipelines(openPipelined, pipelineLimitMs + graceMs);
  return {
    pipelines: readPipelines,
    pool: lists,
    run: (statement) => runNamed(lists, pooled ? { ...statement, name: '' } : statement),
    load: () => poolLoad('lists', lists),
    close: async () => {
      readPipelines?.close();
      await lists.end();
    },
    cancelAll: async () => {
      await Promise.all([listClients.cancelAll(), pipelineClients.cancelAll()]);
    },
    abandonAll: () => {
      readPipelines?.renew();
      listClients.abandonAll();
      pipelineClients.abandonAll();
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
