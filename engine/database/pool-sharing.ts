import { setTimeout as pause } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import { sqlState } from './failures.ts';

/** SQLSTATE of a server, database or role without free connections. */
const tooManyConnections = '53300';
/** Interval between connection attempts, and time after which the pools can grow again, in milliseconds. */
const [retryMs, growMs] = [25, 30_000];
/** Share of the connections used for lists. */
const listShare = 0.4;

/** Pools that share the available connections. */
interface Sharing {
  readonly records: Pool;
  readonly lists: Pool;
  /** Other connections, closed when there are too few; their statements then run in the pools. */
  readonly besides: readonly ({ readonly yieldFor: (ms: number) => void } | undefined)[];
  /** Maximum time that a statement waits for a connection, in milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Lets pools share the connections that the server grants if they are fewer than configured. A pool whose connection was
 * rejected gets one from the other pool instead of failing until the other closes one by itself.
 */
export function sharePools({ records, lists, besides, timeoutMs }: Sharing): void {
  const full = { records: records.options.max, lists: lists.options.max };
  let growing: NodeJS.Timeout | undefined;
  const grow = () => {
    records.options.max = full.records;
    lists.options.max = full.lists;
  };

  /** Divides the available connections between the pools. */
  const divide = () => {
    for (const each of besides) each?.yieldFor(growMs);
    const open = Math.max(2, records.totalCount + lists.totalCount);
    lists.options.max = Math.min(full.lists, Math.max(1, Math.floor(open * listShare)));
    records.options.max = Math.min(full.records, Math.max(1, open - lists.options.max));
    clearTimeout(growing);
    growing = setTimeout(grow, growMs).unref();
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
    const patiently = async (): Promise<PoolClient> => {
      const end = performance.now() + timeoutMs;
      for (;;) {
        try {
          return await connect();
        } catch (cause) {
          if (sqlState(cause) !== tooManyConnections || performance.now() > end) throw cause;
        }
        divide();
        // Trimming fails in the same way if the other pool has no connection to spare.
        await Promise.race([trim(other).catch(() => {}), pause(retryMs)]);
        await pause(retryMs);
      }
    };
    Object.assign(pool, { connect: patiently });
  }
}
