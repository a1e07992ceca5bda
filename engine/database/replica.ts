import { setTimeout as delay } from 'node:timers/promises';
import type { PoolConfig } from 'pg';
import { type Address, describeAddress } from './address.ts';
import { coalesce } from './coalesce.ts';
import type { ReadServer, Runnable, TextRows } from './database.ts';
import { openReadPool, type ReadPool } from './read-pool.ts';
import { findServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';

/** The primary's position in its write-ahead log, in bytes, at a time of this process in milliseconds. */
export interface WalPosition {
  readonly at: number;
  readonly bytes: number;
  /** Identity of the cluster and database. */
  readonly identity: string;
}

/** State of one replica, as known to this node. */
export interface Replica {
  /** Hosts and database. */
  readonly name: string;
  /** Its connections; undefined while it is not used. */
  readonly server: (maxLagMs: number) => ReadServer | undefined;
  /** Why it is not used; undefined while it is used. */
  readonly problem: (maxLagMs: number) => string | undefined;
  /** Waits briefly for the replica to reach a position. @returns whether it did */
  readonly reaches: (bytes: number) => Promise<boolean>;
  /** Checks the replica. @param primary a recent position of the primary */
  readonly check: (primary: WalPosition | undefined) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Maximum time a read waits for its replica before it uses the primary, and the polling interval, in milliseconds. */
const [waitMs, lookMs] = [20, 1];
/** Time that a server has to report its position, in milliseconds. */
export const replicaTimeoutMs = 500;
/** Maximum number of the primary's positions remembered until the replica reaches them. */
const maxPositions = 1000;

export const identitySql = `(select system_identifier from pg_control_system()) || '/' || current_database()`;
const stateText = `select ${identitySql}, pg_is_in_recovery()::text, (pg_last_wal_replay_lsn() - '0/0')::text`;
const state: Runnable = { name: 'replica_state', text: stateText, values: [], lane: 'read' };

/** Runs a statement on a pipeline or in the pool. @returns undefined if there is no result in time */
export async function queryServer(
  { pipelines, run }: ReadServer,
  statement: Runnable,
): Promise<TextRows | undefined> {
  const found = async () => (await pipelines?.run(statement, '')) ?? run(statement);
  const late = new AbortController();
  const timeout = delay(replicaTimeoutMs, undefined, { signal: late.signal, ref: false }).catch(
    () => undefined,
  );
  try {
    return await Promise.race([found().catch(() => undefined), timeout]);
  } finally {
    late.abort();
  }
}

/** Creates a replica, which connects at its first check and after each failed one. */
export function openReplica(config: DatabaseConfig, address: Address, options: PoolConfig): Replica {
  let reading: ReadPool | undefined;
  let isClosed = false;
  let problem: string | undefined = 'not connected yet';
  /** Its position, and the time of this process at which the primary was there. */
  let bytes = 0;
  let freshAt = Number.NEGATIVE_INFINITY;
  /** Positions of the primary that the replica has not been seen to reach, oldest first. */
  let ahead: WalPosition[] = [];
  /** Whether a read has timed out since the last check. */
  let isLate = false;

  async function connect(): Promise<ReadPool | undefined> {
    if (reading !== undefined) return reading;
    const server = await findServer(config, address, config.connectTimeoutMs).catch(() => undefined);
    if (server === undefined || isClosed) return undefined;
    reading = openReadPool(config, server, address.target, options);
    return reading;
  }

  /** Returns why the replica is unusable regardless of its position. */
  async function look(expected: string | undefined): Promise<string | undefined> {
    const server = await connect();
    const [row] = (server && (await queryServer(server, state))) ?? [];
    const [identity, inRecovery, position] = row ?? [];
    if (identity === undefined) return 'does not respond';
    if (expected !== undefined && identity !== expected) return 'holds another database';
    if (inRecovery !== 'true' || position === null) return 'is not a replica';
    bytes = Number(position);
    return undefined;
  }
  const lookAgain = coalesce(async () => look(undefined));

  const problemNow = (maxLagMs: number): string | undefined => {
    if (problem !== undefined) return problem;
    const lagMs = performance.now() - freshAt;
    if (lagMs <= maxLagMs) return undefined;
    return Number.isFinite(lagMs) ? `is ${Math.round(lagMs)} ms behind` : 'is behind';
  };
  return {
    name: describeAddress(address),
    problem: problemNow,
    server: (maxLagMs) => (problemNow(maxLagMs) === undefined ? reading : undefined),
    reaches: async (wanted) => {
      if (bytes >= wanted) return true;
      if (isLate) return false;
      const end = performance.now() + waitMs;
      while (performance.now() < end) {
        const failed = await lookAgain();
        if (failed !== undefined) break;
        if (bytes >= wanted) return true;
        await delay(lookMs);
      }
      isLate = true;
      return false;
    },
    check: async (primary) => {
      if (primary !== undefined) ahead.push(primary);
      if (ahead.length > maxPositions) ahead.shift();
      const found = await look(primary?.identity);
      if (found !== undefined && problem === undefined) reading?.cutAll();
      problem = found;
      if (found !== undefined) return;
      const had = ahead.filter((position) => position.bytes <= bytes);
      freshAt = Math.max(freshAt, ...had.map(({ at }) => at));
      ahead = ahead.filter((position) => position.bytes > bytes);
      isLate = false;
    },
    close: async () => {
      isClosed = true;
      const closing = reading;
      setTimeout(() => closing?.cutAll(), replicaTimeoutMs).unref();
      await closing?.close();
    },
  };
}
