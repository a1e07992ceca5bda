import { setTimeout as pause } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import { sqlState, tooManyConnections } from './failures.ts';

/** Interval between connection attempts, and time after which the pools can grow again, in milliseconds. */
const [retryMs, growMs] = [25, 30_000];
/** Share of the connections used for lists. */
const listShare = 0.4;

/** Pools that share the available connections. */
interface PoolSharing {
  readonly records: Pool;
  readonly lists: Pool;
  /**
   * Other connections, which are closed if the server does not accept enough. Their statements then run in
   * the pools.
   */
  readonly otherConnections: readonly ({ readonly yieldFor: (ms: number) => void } | undefined)[];
  /** Maximum time that a statement waits for a connection, in milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Lets pools share the available connections if the server accepts fewer than configured. If a pool's
 * connection attempt is rejected, the other pool gives up a connection. Otherwise, the pool would fail until
 * the other pool closed a connection on its own.
 */
export function sharePools({ records, lists, otherConnections: besides, timeoutMs }: PoolSharing): void {
  const maxima = { records: records.options.max, lists: lists.options.max };
  let growTimer: NodeJS.Timeout | undefined;
  const grow = () => {
    records.options.max = maxima.records;
    lists.options.max = maxima.lists;
  };

  /** Divides the available connections between the pools. */
  const divide = () => {
    for (const connections of besides) connections?.yieldFor(growMs);
    const openCount = Math.max(2, records.totalCount + lists.totalCount);
    lists.options.max = Math.min(maxima.lists, Math.max(1, Math.floor(openCount * listShare)));
    records.options.max = Math.min(maxima.records, Math.max(1, openCount - lists.options.max));
    clearTimeout(growTimer);
    growTimer = setTimeout(grow, growMs).unref();
  };
  const trim = async (pool: Pool): Promise<void> => {
    if (pool.totalCount <= pool.options.max) return;
    const surplus = await pool.connect();
    surplus.release(true);
  };

  for (const [pool, other] of [
    [records, lists],
    [lists, records],
  ] as const) {
    const connect = pool.connect.bind(pool) as () => Promise<PoolClient>;
    const connectWithRetry = async (): Promise<PoolClient> => {
      const end = performance.now() + timeoutMs;
      for (;;) {
        try {
          return await connect();
        } catch (cause) {
          if (sqlState(cause) !== tooManyConnections || performance.now() > end) throw cause;
        }
        divide();
        // Trimming can fail with the same error if the other pool cannot spare a connection.
        await Promise.race([trim(other).catch(() => {}), pause(retryMs)]);
        await pause(retryMs);
      }
    };
    Object.assign(pool, { connect: connectWithRetry });
  }
}
