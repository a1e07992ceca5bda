import { setTimeout as delay } from 'node:timers/promises';
import type { PoolConfig } from 'pg';
import { type Address, describeAddress } from './address.ts';
import { coalesce } from './coalesce.ts';
import type { Runnable, Server, TextRows } from './database.ts';
import { openReadPool, type ReadPool } from './read-pool.ts';
import { withTimeout } from './timeout.ts';
import { findServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';

/**
 * The primary's position in its write-ahead log, in bytes, and the time at which the primary was at this
 * position, in milliseconds according to this process's clock.
 */
export interface WalPosition {
  readonly at: number;
  readonly bytes: number;
  /** Identity of the cluster and database. */
  readonly identity: string;
}

/** State of one replica, as known to this node. */
export interface Replica {
  /** The replica's hosts and database. */
  readonly name: string;
  /** Returns the replica's connections, or undefined if it must not be used. */
  readonly server: (maxLagMs: number) => Server | undefined;
  /** Returns the reason the replica must not be used, or undefined if it can be used. */
  readonly problem: (maxLagMs: number) => string | undefined;
  /** Waits briefly for the replica to reach a position. @returns whether the replica has reached it */
  readonly reaches: (bytes: number) => Promise<boolean>;
  /** Checks the replica. @param primary a recent position of the primary */
  readonly check: (primary: WalPosition | undefined) => Promise<void>;
  readonly close: () => Promise<void>;
}

/**
 * Maximum time that a read waits for its replica before it uses the primary, and the polling interval, in
 * milliseconds.
 */
const [waitMs, pollMs] = [20, 1];
/** Time allowed for a server to report its position, in milliseconds. */
const replicaTimeoutMs = 500;
/** Maximum number of primary positions remembered until the replica reaches them. */
const maxPositions = 1000;

export const identitySql = `(select system_identifier from pg_control_system()) || '/' || current_database()`;
const stateText = `select ${identitySql}, pg_is_in_recovery()::text, (pg_last_wal_replay_lsn() - '0/0')::text`;
const state: Runnable = { name: 'replica_state', text: stateText, values: [], lane: 'read' };

/** Runs a statement on a pipeline or in the pool. @returns undefined if it fails or times out */
export function queryServer({ pipelines, run }: Server, statement: Runnable): Promise<TextRows | undefined> {
  const query = async () => (await pipelines?.run(statement, '')) ?? run(statement);
  return withTimeout(replicaTimeoutMs, query()).catch(() => undefined);
}

/** Creates a replica. It connects at its first check, and retries at the next check if the attempt fails. */
export function openReplica(config: DatabaseConfig, address: Address, options: PoolConfig): Replica {
  let readPool: ReadPool | undefined;
  let isClosed = false;
  let problem: string | undefined = 'not connected yet';
  /** The replica's position, and the latest known time at which the primary was at that position. */
  let bytes = 0;
  let freshAt = Number.NEGATIVE_INFINITY;
  /** Positions of the primary that the replica is not known to have reached, oldest first. */
  let unreached: WalPosition[] = [];
  /** Whether a read has timed out since the last check. */
  let isLate = false;

  async function connect(): Promise<ReadPool | undefined> {
    if (readPool !== undefined) return readPool;
    const server = await findServer(config, address, config.connectTimeoutMs).catch(() => undefined);
    if (server === undefined || isClosed) return undefined;
    readPool = openReadPool(config, server, address.target, options);
    return readPool;
  }

  /** Reads the replica's state. @returns why it is unusable regardless of its position, or undefined */
  async function readState(expectedIdentity: string | undefined): Promise<string | undefined> {
    const server = await connect();
    const [row] = (server && (await queryServer(server, state))) ?? [];
    const [identity, inRecovery, position] = row ?? [];
    if (identity === undefined) return 'does not respond';
    if (expectedIdentity !== undefined && identity !== expectedIdentity) return 'contains another database';
    if (inRecovery !== 'true' || position === null) return 'is not a replica';
    bytes = Number(position);
    return undefined;
  }
  const refresh = coalesce(async () => readState(undefined));

  const currentProblem = (maxLagMs: number): string | undefined => {
    if (problem !== undefined) return problem;
    const lagMs = performance.now() - freshAt;
    if (lagMs <= maxLagMs) return undefined;
    return Number.isFinite(lagMs) ? `is ${Math.round(lagMs)} ms behind` : 'is behind';
  };
  return {
    name: describeAddress(address),
    problem: currentProblem,
    server: (maxLagMs) => (currentProblem(maxLagMs) === undefined ? readPool : undefined),
    reaches: async (target) => {
      if (bytes >= target) return true;
      if (isLate) return false;
      const end = performance.now() + waitMs;
      while (performance.now() < end) {
        const failure = await refresh();
        if (failure !== undefined) break;
        if (bytes >= target) return true;
        await delay(pollMs);
      }
      isLate = true;
      return false;
    },
    check: async (primary) => {
      if (primary !== undefined) unreached.push(primary);
      if (unreached.length > maxPositions) unreached.shift();
      const newProblem = await readState(primary?.identity);
      if (newProblem !== undefined && problem === undefined) readPool?.abandonAll();
      problem = newProblem;
      if (newProblem !== undefined) return;
      const reached = unreached.filter((position) => position.bytes <= bytes);
      freshAt = Math.max(freshAt, ...reached.map(({ at }) => at));
      unreached = unreached.filter((position) => position.bytes > bytes);
      isLate = false;
    },
    close: async () => {
      isClosed = true;
      const pool = readPool;
      setTimeout(() => pool?.cancelAll(), replicaTimeoutMs).unref();
      await pool?.close();
    },
  };
}
