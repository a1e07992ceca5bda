import { setTimeout as pause } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import { sqlState } from './failures.ts';

/** SQLSTATE of a server, database or role that has no connection left. */
const tooManyConnections = '53300';
/** How often a connection is tried again, and after how long the pools may grow again, in milliseconds. */
const [retryMs, growMs] = [25, 30_000];
/** The part of the connections that lists get. */
const listShare = 0.4;

/** What shares the connections that a server grants. */
interface Sharing {
  readonly records: Pool;
  readonly lists: Pool;
  /** Connections besides the pools that are closed when there are too few; statements then run in the pools. */
  readonly besides: readonly ({ readonly yieldFor: (ms: number) => void } | undefined)[];
  /** How long a statement may wait for a connection, in milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Lets pools share what the server grants if that is less than they are configured for: a pool that is refused a connection
 * gets one that another does not need as much, instead of failing until the other gives one up by itself.
 */
export function sharePools({ records, lists, besides, timeoutMs }: Sharing): void {
  const full = { records: records.options.max, lists: lists.options.max };
  let growing: NodeJS.Timeout | undefined;
  const grow = () => {
    records.options.max = full.records;
    lists.options.max = full.lists;
  };

  /** Divides the connections that there are, and closes those beyond a pool's part. */
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
        // It fails as this one did if there is none to give up.
        await Promise.race([trim(other).catch(() => {}), pause(retryMs)]);
        await pause(retryMs);
      }
    };
    Object.assign(pool, { connect: patiently });
  }
}
