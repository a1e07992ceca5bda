import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { cacheCounts, type Database } from '../../../engine/database/index.ts';
import type { Metrics } from '../../../engine/modules/index.ts';

/** Returns metrics for a process's lanes, connections and caches. */
export const loadMetrics = ({ status }: Pick<Database, 'status'>): Metrics => ({
  families: {
    crm_statements_running: {
      type: 'gauge',
      help: 'Running record statements, by lane or connection group (label turn).',
    },
    crm_statements_limit: {
      type: 'gauge',
      help: 'Maximum number of concurrent statements. Some lanes share a limit.',
    },
    crm_statements_waiting: { type: 'gauge', help: 'Statements waiting for a slot.' },
    crm_statements_refused_total: {
      type: 'counter',
      help: 'Statements rejected with 503 overloaded because the queue was full (full) or the wait timed out (late).',
    },
    crm_organizations_waiting: {
      type: 'gauge',
      help: 'Organizations with waiting statements; an organization waiting on several workers is counted once per worker.',
    },
    crm_organizations_at_bound: {
      type: 'gauge',
      help: 'Waiting organizations that have reached the per-organization limit.',
    },
    crm_organization_waiting_max: {
      type: 'gauge',
      help: 'Largest number of waiting statements for a single organization, summed across workers.',
    },
    crm_response_buffer_bytes: {
      type: 'gauge',
      help: 'Size of response data not yet read by clients.',
    },
    crm_response_buffer_limit_bytes: {
      type: 'gauge',
      help: 'Maximum size of unread response data (RESPONSE_BUFFER_MB).',
    },
    crm_database_connections: { type: 'gauge', help: 'Open connections to PostgreSQL, by pool and state.' },
    crm_database_connections_limit: { type: 'gauge', help: 'Maximum number of connections in a pool.' },
    crm_database_connections_waiting: {
      type: 'gauge',
      help: 'Statements waiting for a connection from a pool.',
    },
    crm_cache_lookups_total: {
      type: 'counter',
      help: 'Cache lookups answered by the cache (hit) or by the database (miss).',
    },
  },
  ofInstance: false,
  read: (record) => {
    const { lanes, bytes, byteLimit, connections } = status();
    for (const load of lanes) {
      const labels = { turn: load.lane };
      record('crm_statements_running', load.running, labels);
      record('crm_statements_limit', load.limit, labels);
      record('crm_statements_waiting', load.waiting, labels);
      record('crm_statements_refused_total', load.queueFull, { ...labels, reason: 'full' });
      record('crm_statements_refused_total', load.timedOut, { ...labels, reason: 'late' });
      record('crm_organizations_waiting', load.organizations, labels);
      record('crm_organizations_at_bound', load.limited, labels);
      record('crm_organization_waiting_max', load.longestQueue, labels);
    }
    record('crm_response_buffer_bytes', bytes);
    record('crm_response_buffer_limit_bytes', byteLimit);
    for (const { pool, inUse, idle, waiting, limit } of connections) {
      record('crm_database_connections', inUse, { pool, state: 'in_use' });
      record('crm_database_connections', idle, { pool, state: 'idle' });
      record('crm_database_connections_limit', limit, { pool });
      record('crm_database_connections_waiting', waiting, { pool });
    }
    for (const [cache, { hits, misses }] of cacheCounts()) {
      record('crm_cache_lookups_total', hits, { cache, result: 'hit' });
      record('crm_cache_lookups_total', misses, { cache, result: 'miss' });
    }
  },
});

/**
 * Returns metrics for the disk that contains the data folder or, if the folder does not exist, its closest
 * existing parent.
 */
export const diskMetrics = (dataFolder: string): Metrics => ({
  families: {
    crm_disk_free_bytes: { type: 'gauge', help: 'Free space on the disk that contains DATA_DIR.' },
    crm_disk_size_bytes: { type: 'gauge', help: 'Size of the disk that contains DATA_DIR.' },
  },
  ofInstance: true,
  read: async (record) => {
    let folder = dataFolder;
    while (!existsSync(folder)) folder = dirname(folder);
    const { bavail, blocks, bsize } = await statfs(folder);
    record('crm_disk_free_bytes', bavail * bsize);
    record('crm_disk_size_bytes', blocks * bsize);
  },
});

/** Returns a metric with the constant value 1, whose labels describe the running service. */
export const buildMetrics = (labels: Readonly<Record<string, string>>): Metrics => ({
  families: {
    crm_build_info: {
      type: 'gauge',
      help: 'Always 1; the labels contain the service version, the Node.js version, the database and the last required migration.',
    },
  },
  ofInstance: true,
  read: (record) => {
    record('crm_build_info', 1, labels);
  },
});
