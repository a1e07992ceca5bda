import type { PoolConfig } from 'pg';
import type { Address } from './address.ts';
import { coalesce } from './coalesce.ts';
import type { ReadServer, Replicas, Runnable } from './database.ts';
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
 * Monitors replicas and selects one for a read if it has everything that the caller can know about.
 * @param primary serves all other reads
 * @param options options of the primary's pool
 */
export function openReplicas(
  config: DatabaseConfig,
  addresses: readonly Address[],
  primary: ReadServer,
  options: PoolConfig,
): Replicas & { readonly close: () => Promise<void> } {
  const { replicaLagMs } = config;
  const all = addresses.map((address) => openReplica(config, address, options));
  const bytesNow = coalesce(async (): Promise<number | undefined> => {
    const [row] = (await queryServer(primary, bytes)) ?? [];
    return row === undefined ? undefined : Number(row[0]);
  });
  async function locate(): Promise<WalPosition | undefined> {
    const at = performance.now();
    const [row] = (await queryServer(primary, position)) ?? [];
    return row === undefined ? undefined : { at, bytes: Number(row[0]), identity: String(row[1]) };
  }

  /** Replicas being checked. A silent one must not delay the others. */
  const checking = new Set<(typeof all)[number]>();
  const checkAll = async () => {
    const found = await locate();
    for (const replica of all) {
      if (checking.has(replica)) continue;
      checking.add(replica);
      void replica.check(found).finally(() => checking.delete(replica));
    }
  };
  const timer = setInterval(() => void checkAll(), checkIntervalMs).unref();
  void checkAll();

  return {
    find: async (organization, mayWrite) => {
      // An organization's reads stay on one replica, so that its pages stay in memory there.
      const first = Number(BigInt(organization) % BigInt(all.length));
      for (let tried = 0; tried < all.length; tried++) {
        const replica = all[(first + tried) % all.length];
        const server = replica?.server(replicaLagMs);
        if (replica === undefined || server === undefined) continue;
        if (!mayWrite) return server;
        const wanted = await bytesNow();
        return wanted !== undefined && (await replica.reaches(wanted)) ? server : undefined;
      }
      return undefined;
    },
    status: () => Object.fromEntries(all.map(({ name, problem }) => [name, problem(replicaLagMs)] as const)),
    close: async () => {
      clearInterval(timer);
      await Promise.all(all.map(({ close }) => close()));
    },
  };
}
