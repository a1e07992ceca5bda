import type { PoolConfig } from 'pg';
import type { Address } from './address.ts';
import { coalesce } from './coalesce.ts';
import type { Replicas, Runnable, Server } from './database.ts';
import { identitySql, openReplica, queryServer, type WalPosition } from './replica.ts';
import type { DatabaseConfig } from './variables.ts';

/** Interval at which each replica is checked, in milliseconds. */
const checkIntervalMs = 250;

// Acknowledged writes have been flushed, unless commits do not wait for the flush.
const bytesSql = `(case when current_setting('synchronous_commit') = 'off' then pg_current_wal_insert_lsn() else pg_current_wal_flush_lsn() end - '0/0')::text`;
const statement = (name: string, text: string): Runnable => ({ name, text, lane: 'read', values: [] });
const bytes = statement('primary_bytes', `select ${bytesSql}`);
const position = statement('primary_position', `select ${bytesSql}, ${identitySql}`);

/**
 * Monitors replicas and selects one for a read if it has all changes that the caller might have seen.
 * @param primary the server for all other reads
 * @param options the primary pool's options
 */
export function openReplicas(
  config: DatabaseConfig,
  addresses: readonly Address[],
  primary: Server,
  options: PoolConfig,
): Replicas & { readonly close: () => Promise<void> } {
  const { replicaLagMs } = config;
  const replicas = addresses.map((address) => openReplica(config, address, options));
  const currentBytes = coalesce(async (): Promise<number | undefined> => {
    const [row] = (await queryServer(primary, bytes)) ?? [];
    return row === undefined ? undefined : Number(row[0]);
  });
  async function readPosition(): Promise<WalPosition | undefined> {
    const at = performance.now();
    const [row] = (await queryServer(primary, position)) ?? [];
    return row === undefined ? undefined : { at, bytes: Number(row[0]), identity: String(row[1]) };
  }

  /** Replicas being checked. An unresponsive replica must not delay the others. */
  const inProgress = new Set<(typeof replicas)[number]>();
  const checkAll = async () => {
    const primaryPosition = await readPosition();
    for (const replica of replicas) {
      if (inProgress.has(replica)) continue;
      inProgress.add(replica);
      void replica.check(primaryPosition).finally(() => inProgress.delete(replica));
    }
  };
  const timer = setInterval(() => void checkAll(), checkIntervalMs).unref();
  void checkAll();

  return {
    find: async (organization, access) => {
      // An organization's reads use the same replica, so that its pages stay in that server's memory.
      const first = Number(BigInt(organization) % BigInt(replicas.length));
      for (let offset = 0; offset < replicas.length; offset++) {
        const replica = replicas[(first + offset) % replicas.length];
        const server = replica?.server(replicaLagMs);
        if (replica === undefined || server === undefined) continue;
        if (access === 'delayed read') return server;
        const target = await currentBytes();
        return target !== undefined && (await replica.reaches(target)) ? server : undefined;
      }
      return undefined;
    },
    status: () =>
      Object.fromEntries(replicas.map(({ name, problem }) => [name, problem(replicaLagMs)] as const)),
    close: async () => {
      clearInterval(timer);
      await Promise.all(replicas.map(({ close }) => close()));
    },
  };
}
