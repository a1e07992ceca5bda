import { setTimeout as delay } from 'node:timers/promises';
import type { PoolConfig } from 'pg';
import { type Address, describeAddress } from './address.ts';
import { coalesce } from './coalesce.ts';
import type { ReadServer, Runnable, TextRows } from './database.ts';
import { openReadPool, type ReadPool } from './read-pool.ts';
import { findServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';

/** Where the primary was in its log of changes, in bytes since the beginning, at a time of this process in milliseconds. */
export interface WalPosition {
  readonly at: number;
  readonly bytes: number;
  /** Which cluster and database it is. */
  readonly identity: string;
}

/** One replica, as far as this node knows. */
export interface Replica {
  /** Its hosts and its database. */
  readonly name: string;
  /** Its connections; undefined while it is left out. */
  readonly server: (maxLagMs: number) => ReadServer | undefined;
  /** Why it is left out; undefined while it is used. */
  readonly problem: (maxLagMs: number) => string | undefined;
  /** Waits for a moment until it has a position. @returns whether it does */
  readonly reaches: (bytes: number) => Promise<boolean>;
  /** Finds out how it is. @param primary where the primary was a moment ago */
  readonly check: (primary: WalPosition | undefined) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** How long a read waits for its replica before it goes to the primary, and how long between two looks, in milliseconds. */
const [waitMs, lookMs] = [20, 1];
/** How long a server may take to say where it is, in milliseconds. */
export const replicaTimeoutMs = 500;
/** Positions of the primary that are remembered until the replica has them. */
const maxPositions = 1000;

export const identitySql = `(select system_identifier from pg_control_system()) || '/' || current_database()`;
const stateText = `select ${identitySql}, pg_is_in_recovery()::text, (pg_last_wal_replay_lsn() - '0/0')::text`;
const state: Runnable = { name: 'replica_state', text: stateText, values: [], lane: 'read' };

/** Runs a statement on a shared connection, or one of the pool. @returns undefined if there is no result in time */
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

/** A replica that is connected to at its first check, and again after each that fails. */
export function openReplica(config: DatabaseConfig, address: Address, options: PoolConfig): Replica {
  let reading: ReadPool | undefined;
  let isClosed = false;
  let problem: string | undefined = 'not connected yet';
  /** Where it is, and since when it has had everything that the primary had: a time of this process. */
  let bytes = 0;
  let freshAt = Number.NEGATIVE_INFINITY;
  /** Where the primary was, which the replica is not yet known to have; oldest first. */
  let ahead: WalPosition[] = [];
  /** Whether a read has waited in vain since the last check. */
  let isLate = false;

  async function connect(): Promise<ReadPool | undefined> {
    if (reading !== undefined) return reading;
    const server = await findServer(config, address, config.connectTimeoutMs).catch(() => undefined);
    if (server === undefined || isClosed) return undefined;
    reading = openReadPool(config, server, address.target, options);
    return reading;
  }

  /** @returns why it cannot be used, whatever its position */
  async function look(expected: string | undefined): Promise<string | undefined> {
    const server = await connect();
    const [row] = (server && (await queryServer(server, state))) ?? [];
    const [identity, inRecovery, position] = row ?? [];
    if (identity === undefined) return 'does not respond';
    if (expected !== undefined && identity !== expected) return 'holds another database';
    if (inRecovery !== 'true' || position === null) return 'is no standby';
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
