import type { AdmissionLane, AdmissionLimits, LaneLimit } from './admission.ts';
import type { DatabaseConfig } from './variables.ts';

const atLeastOne = (count: number): number => Math.max(1, Math.floor(count));

/** Returns one process's share of an instance-wide limit. */
export const processShare = (limit: number, { workers }: Pick<DatabaseConfig, 'workers'>): number =>
  atLeastOne(limit / workers);

/** Returns the limit on requests waiting in one lane. */
const queueLimit = (config: DatabaseConfig): LaneLimit => ({
  perOrganization: processShare(1000, config),
  total: processShare(4000, config),
});

/** Returns the limit on unread response bytes. One organization can use half of it. */
const byteLimit = (config: DatabaseConfig): LaneLimit => {
  const total = processShare(config.responseBytes, config);
  return { perOrganization: total / 2, total };
};

/**
 * Returns the limit on exports and imports. Their duration depends on the client, but they do not occupy a
 * connection.
 */
const streams = (config: DatabaseConfig): LaneLimit => ({
  perOrganization: processShare(2, config),
  total: processShare(8, config),
});

/**
 * Divides the connections to PostgreSQL between lists and all other statements. The minimum is one for lists
 * and two for other statements, because a module's transaction can need a lookup while it runs.
 */
export function connections(pool: number): { readonly lists: number; readonly records: number } {
  const lists = atLeastOne(pool * 0.4);
  return { lists, records: Math.max(2, pool - lists) };
}

/**
 * Number of connections per process in addition to its pools: two for pipelines, two for write batches and
 * one for health checks.
 */
const extraConnections = 5;

/** Returns the maximum number of connections to PostgreSQL used by all processes of an instance. */
export function connectionsOf(config: Pick<DatabaseConfig, 'pool' | 'workers'>): number {
  const { lists, records } = connections(processShare(config.pool, config));
  return config.workers * (lists + records + extraConnections);
}

/**
 * Returns the limits for PostgreSQL. Of the connections not used for lists, two are reserved for key and
 * session lookups, logins and background work. No organization can use all connections of one kind. Writes
 * can wait for locks, so they cannot use all connections for records. These guarantees require at least five
 * connections.
 */
export function postgresLimits(config: DatabaseConfig): AdmissionLimits {
  const { lists, records } = connections(processShare(config.pool, config));
  const share = (limit: number) => processShare(limit, config);
  const allButOne = (total: number): LaneLimit => ({ perOrganization: atLeastOne(total - 1), total });
  const record = allButOne(atLeastOne(records - (records > 3 ? 2 : 1)));
  const writes = atLeastOne(record.total - 1);
  const list = allButOne(lists);
  // Scans are CPU-bound, so more connections would not help.
  const scans = Math.min(4, atLeastOne(lists / 2));
  const write: readonly LaneLimit[] = [
    record,
    { perOrganization: atLeastOne((writes + 1) / 2), total: writes },
  ];
  const unreserved = atLeastOne(records - record.total);
  return {
    lanes: {
      // These lanes do not occupy a pooled connection. A list can be 20 MB in size, so only a few can be in
      // flight.
      'short read': [{ perOrganization: share(64), total: share(256) }],
      'short list': [{ perOrganization: share(4), total: share(16) }],
      'short write': [{ perOrganization: share(32), total: share(256) }],
      read: [record],
      write,
      // A batch takes as long as hundreds of writes, so each organization can run one, and some connections
      // are left for other writes.
      batch: [...write, { perOrganization: 1, total: atLeastOne(writes / 3) }],
      list: [list],
      scan: [list, { perOrganization: atLeastOne(scans / 2), total: scans }],
      // Aggregates are CPU-bound like scans, but a dashboard's aggregates do not delay lists.
      aggregate: [list, { perOrganization: 1, total: atLeastOne((scans + 1) / 2) }],
      // Exports do not use the list connections, because they can take longer than a page.
      export: [record, { perOrganization: 1, total: 2 }],
      stream: [streams(config)],
      // Modules run transactions, which wait for locks as writes do.
      module: write,
      lookup: [{ perOrganization: unreserved, total: unreserved }],
    },
    queue: queueLimit(config),
    bytes: byteLimit(config),
    waitMs: config.connectTimeoutMs,
  };
}

/**
 * Returns the limits for the embedded database, which runs one statement at a time on the server's thread.
 * Organizations take turns, and other work waits for at most one statement.
 */
export function embeddedLimits(config: DatabaseConfig): AdmissionLimits {
  const limits = postgresLimits(config);
  const lanes = { ...limits.lanes };
  const single = [{ perOrganization: 1, total: 1 }];
  for (const lane of Object.keys(lanes) as AdmissionLane[]) if (lane !== 'stream') lanes[lane] = single;
  return { ...limits, lanes };
}
