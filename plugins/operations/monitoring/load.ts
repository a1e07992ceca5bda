import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { cacheCounts, type Database } from '../../../engine/database/index.ts';
import type { Metrics } from '../../../engine/modules/index.ts';

/** How busy the turns of statements, the connections and the caches of a process are. */
export const loadMetrics = ({
  admission,
  connections,
}: Pick<Database, 'admission' | 'connections'>): Metrics => ({
  families: {
    crm_statements_running: {
      type: 'gauge',
      help: 'Statements of records that run, by turn: a lane, or a way to share connections.',
    },
    crm_statements_limit: {
      type: 'gauge',
      help: 'Statements of a turn that may run at the same time; some turns share it.',
    },
    crm_statements_waiting: { type: 'gauge', help: 'Statements that wait for their turn.' },
    crm_statements_refused_total: {
      type: 'counter',
      help: 'Statements that were refused with 503 overloaded, because too many waited already (full) or their turn did not come in time (late).',
    },
    crm_organizations_waiting: {
      type: 'gauge',
      help: 'Organizations with statements that wait for their turn; one on several workers counts on each.',
    },
    crm_organizations_at_bound: {
      type: 'gauge',
      help: 'Those among them that have as much under way as one organization may.',
    },
    crm_organization_waiting_max: {
      type: 'gauge',
      help: 'Statements that wait of the organization with the most, added up over workers.',
    },
    crm_response_buffer_bytes: { type: 'gauge', help: 'Responses that their readers have not taken yet.' },
    crm_response_buffer_limit_bytes: {
      type: 'gauge',
      help: 'How much of them there may be (RESPONSE_BUFFER_MB).',
    },
    crm_database_connections: { type: 'gauge', help: 'Open connections to PostgreSQL, by pool and state.' },
    crm_database_connections_limit: { type: 'gauge', help: 'Connections that a pool may have.' },
    crm_database_connections_waiting: {
      type: 'gauge',
      help: 'Statements that wait for a connection of a pool.',
    },
    crm_cache_lookups_total: {
      type: 'counter',
      help: 'Look-ups in a cache: answered by it (hit), or by the database (miss).',
    },
  },
  ofInstance: false,
  read: (tell) => {
    const { turns, bytes, byteLimit } = admission.load();
    for (const each of turns) {
      const turn = { turn: each.turn };
      tell('crm_statements_running', each.running, turn);
      tell('crm_statements_limit', each.limit, turn);
      tell('crm_statements_waiting', each.waiting, turn);
      tell('crm_statements_refused_total', each.full, { ...turn, reason: 'full' });
      tell('crm_statements_refused_total', each.late, { ...turn, reason: 'late' });
      tell('crm_organizations_waiting', each.organizations, turn);
      tell('crm_organizations_at_bound', each.bounded, turn);
      tell('crm_organization_waiting_max', each.longest, turn);
    }
    tell('crm_response_buffer_bytes', bytes);
    tell('crm_response_buffer_limit_bytes', byteLimit);
    for (const { pool, inUse, idle, waiting, limit } of connections?.() ?? []) {
      tell('crm_database_connections', inUse, { pool, state: 'in_use' });
      tell('crm_database_connections', idle, { pool, state: 'idle' });
      tell('crm_database_connections_limit', limit, { pool });
      tell('crm_database_connections_waiting', waiting, { pool });
    }
    for (const [cache, { hits, misses }] of cacheCounts()) {
      tell('crm_cache_lookups_total', hits, { cache, result: 'hit' });
      tell('crm_cache_lookups_total', misses, { cache, result: 'miss' });
    }
  },
});

/** The disk of the data folder, which also holds backups; on PostgreSQL that of the closest folder that exists. */
export const diskMetrics = (dataFolder: string): Metrics => ({
  families: {
    crm_disk_free_bytes: { type: 'gauge', help: 'Free space on the disk of DATA_DIR.' },
    crm_disk_size_bytes: { type: 'gauge', help: 'Size of the disk of DATA_DIR.' },
  },
  ofInstance: true,
  read: async (tell) => {
    let folder = dataFolder;
    while (!existsSync(folder)) folder = dirname(folder);
    const { bavail, blocks, bsize } = await statfs(folder);
    tell('crm_disk_free_bytes', bavail * bsize);
    tell('crm_disk_size_bytes', blocks * bsize);
  },
});

/** What serves: one value that is always 1, whose labels say it. */
export const buildMetrics = (labels: Readonly<Record<string, string>>): Metrics => ({
  families: {
    crm_build_info: {
      type: 'gauge',
      help: 'Always 1; says the version of the service and of Node.js, the database, and the last migration that it needs.',
    },
  },
  ofInstance: true,
  read: (tell) => {
    tell('crm_build_info', 1, labels);
  },
});
