import type { AdmissionLimits, LaneLimit } from './admission.ts';
import type { DatabaseConfig } from './variables.ts';

const atLeastOne = (count: number): number => Math.max(1, Math.floor(count));

/** The part of a bound of the whole instance that each of its processes has. */
export const processShare = (bound: number, { workers }: Pick<DatabaseConfig, 'workers'>): number =>
  atLeastOne(bound / workers);

/** Requests that wait in one lane. */
const queue = (config: DatabaseConfig): LaneLimit => ({
  each: processShare(1000, config),
  total: processShare(4000, config),
});

/** One organization may have half of the response bytes that all may have. */
const bytes = (config: DatabaseConfig): LaneLimit => {
  const total = processShare(config.responseBytes, config);
  return { each: total / 2, total };
};

/** Exports and imports, which last as long as their readers and senders take, without a connection of their own. */
const streams = (config: DatabaseConfig): LaneLimit => ({
  each: processShare(2, config),
  total: processShare(8, config),
});

/**
 * How the connections to PostgreSQL are shared: some for lists, the others for everything else. At least one and two,
 * because a module's transaction may need a look-up meanwhile.
 */
export function connections(pool: number): { readonly lists: number; readonly records: number } {
  const lists = atLeastOne(pool * 0.4);
  return { lists, records: Math.max(2, pool - lists) };
}

/** What each process has besides its pools: two that short statements share, two for groups of writes, and one for checks. */
const besides = 5;

/** How many connections to PostgreSQL all processes of an instance have when they are busy. */
export function connectionsOf(config: Pick<DatabaseConfig, 'pool' | 'workers'>): number {
  const { lists, records } = connections(processShare(config.pool, config));
  return config.workers * (lists + records + besides);
}

/**
 * The bounds on PostgreSQL. Of the connections that are not for lists, two are left to look-ups of keys and sessions,
 * logins and background work; no organization can have all of anything, and writes, which may wait for locks, not all
 * connections for records. With fewer than five connections there is not enough for that.
 */
export function postgresLimits(config: DatabaseConfig): AdmissionLimits {
  const { lists, records } = connections(processShare(config.pool, config));
  const share = (bound: number) => processShare(bound, config);
  const allButOne = (total: number): LaneLimit => ({ each: atLeastOne(total - 1), total });
  const record = allButOne(atLeastOne(records - (records > 3 ? 2 : 1)));
  const writes = atLeastOne(record.total - 1);
  const list = allButOne(lists);
  // Scans cost processor time, and more connections do not add any.
  const scans = Math.min(4, atLeastOne(lists / 2));
  const write: readonly LaneLimit[] = [record, { each: atLeastOne((writes + 1) / 2), total: writes }];
  const rest = atLeastOne(records - record.total);
  return {
    turns: {
      // They do not occupy a connection. A list may have 20 MB: few are on their way before the first row shows it.
      'short read': [{ each: share(64), total: share(256) }],
      'short list': [{ each: share(4), total: share(16) }],
      'short write': [{ each: share(32), total: share(256) }],
      read: [record],
      write,
      // A batch takes as long as hundreds of writes: one of each organization, and some left to others.
      batch: [...write, { each: 1, total: atLeastOne(writes / 3) }],
      list: [list],
      deep: [list],
      scan: [list, { each: atLeastOne(scans / 2), total: scans }],
      // Not on the connections for lists: it may take longer than a page.
      export: [record, { each: 1, total: 2 }],
      stream: [streams(config)],
      // They may be transactions, which wait for locks as writes do.
      module: write,
      lookup: [{ each: rest, total: rest }],
    },
    queue: queue(config),
    bytes: bytes(config),
    waitMs: config.connectTimeoutMs,
  };
}

/**
 * The bounds on the embedded database, which runs one statement at a time on the server's own thread: organizations
 * take turns, and all other work on the database waits for one statement at most.
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
