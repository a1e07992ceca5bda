import type { AdmissionLimits, LaneLimit } from './admission.ts';
import type { DatabaseConfig } from './variables.ts';

const atLeastOne = (count: number): number => Math.max(1, Math.floor(count));

/** Returns one process's share of an instance-wide limit. */
export const processShare = (bound: number, { workers }: Pick<DatabaseConfig, 'workers'>): number =>
  atLeastOne(bound / workers);

/** Limit on requests waiting in one lane. */
const queue = (config: DatabaseConfig): LaneLimit => ({
  each: processShare(1000, config),
  total: processShare(4000, config),
});

/** Limit on unread response bytes; one organization can use half. */
const bytes = (config: DatabaseConfig): LaneLimit => {
  const total = processShare(config.responseBytes, config);
  return { each: total / 2, total };
};

/** Limit on exports and imports, which last as long as their clients take, but hold no connection. */
const streams = (config: DatabaseConfig): LaneLimit => ({
  each: processShare(2, config),
  total: processShare(8, config),
});

/**
 * Divides the connections to PostgreSQL: some for lists, the others for everything else. At least one and two, because a
 * module's transaction can need a look-up while it runs.
 */
export function connections(pool: number): { readonly lists: number; readonly records: number } {
  const lists = atLeastOne(pool * 0.4);
  return { lists, records: Math.max(2, pool - lists) };
}

/** Connections per process in addition to its pools: two pipelines, two for write batches, one for health checks. */
const besides = 5;

/** Returns the maximum number of connections to PostgreSQL used by all processes of an instance. */
export function connectionsOf(config: Pick<DatabaseConfig, 'pool' | 'workers'>): number {
  const { lists, records } = connections(processShare(config.pool, config));
  return config.workers * (lists + records + besides);
}

/**
 * Returns the limits for PostgreSQL. Of the connections not used for lists, two are reserved for key and session look-ups,
 * logins and background work. No organization can use all connections of a kind, and writes, which can wait for locks, cannot
 * use all connections for records. Fewer than five connections are not enough for these guarantees.
 */
export function postgresLimits(config: DatabaseConfig): AdmissionLimits {
  const { lists, records } = connections(processShare(config.pool, config));
  const share = (bound: number) => processShare(bound, config);
  const allButOne = (total: number): LaneLimit => ({ each: atLeastOne(total - 1), total });
  const record = allButOne(atLeastOne(records - (records > 3 ? 2 : 1)));
  const writes = atLeastOne(record.total - 1);
  const list = allButOne(lists);
  // Scans are CPU-bound, so more connections would not help.
  const scans = Math.min(4, atLeastOne(lists / 2));
  const write: readonly LaneLimit[] = [record, { each: atLeastOne((writes + 1) / 2), total: writes }];
  const rest = atLeastOne(records - record.total);
  return {
    turns: {
      // They do not occupy a connection. A list can have 20 MB, so few are in flight until its first row arrives.
      'short read': [{ each: share(64), total: share(256) }],
      'short list': [{ each: share(4), total: share(16) }],
      'short write': [{ each: share(32), total: share(256) }],
      read: [record],
      write,
      // A batch takes as long as hundreds of writes: one per organization, and connections remain for others.
      batch: [...write, { each: 1, total: atLeastOne(writes / 3) }],
      list: [list],
      deep: [list],
      scan: [list, { each: atLeastOne(scans / 2), total: scans }],
      // Does not use the connections for lists, because it can take longer than a page.
      export: [record, { each: 1, total: 2 }],
      stream: [streams(config)],
      // These can be transactions, which wait for locks like writes.
      module: write,
      lookup: [{ each: rest, total: rest }],
    },
    queue: queue(config),
    bytes: bytes(config),
    waitMs: config.connectTimeoutMs,
  };
}

/**
 * Returns the limits for the embedded database, which runs one statement at a time on the server's thread. Organizations
 * take turns, and all other work waits for at most one statement.
 */
export function embeddedLimits(config: DatabaseConfig): AdmissionLimits {
  const single = [{ each: 1, total: 1 }];
  return {
    turns: {
      'short read': single,
      'short list': single,
      'short write': single,
      read: single,
      write: single,
      batch: single,
      list: single,
      deep: single,
      scan: single,
      export: single,
      stream: [streams(config)],
      module: single,
      lookup: single,
    },
    queue: queue(config),
    bytes: bytes(config),
    waitMs: config.connectTimeoutMs,
  };
}
