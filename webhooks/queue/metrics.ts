import { sql } from 'kysely';
import { type Database, ttlCache } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import type { Family, Metrics } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** Limits the number of waiting events per organization. */
interface Backlog {
  /** Checks the limit. @throws HttpError 503, so that the provider retries, if at least `max` events are waiting */
  readonly admit: (organization: string, max: number) => Promise<void>;
  /** Adds newly stored events to the cached count. */
  readonly add: (organization: string, count: number) => void;
}

/**
 * Creates a backlog. Each node caches the count briefly, so that a flood of deliveries does not cause a query
 * per delivery. As a result, several nodes can together exceed the limit slightly.
 */
export function backlog(database: Database, { table }: Queue): Backlog {
  const counts = ttlCache(
    'backlogs',
    async (organization) => {
      const { rows } = await sql<{ count: string }>`
        select count(*)::text as count from ${sql.table(table)}
        where organization_id = ${organization}::bigint and status = 'waiting'`.execute(tablesOf(database));
      return { count: Number(rows[0]?.count) };
    },
    { ownerOf: (organization) => organization },
  );
  return {
    admit: async (organization, max) => {
      const cached = await counts.get(organization);
      if (cached !== undefined && cached.count >= max) throw errors.inboxFull();
    },
    add: (organization, count) => {
      const cached = counts.get(organization);
      if (cached !== undefined && !(cached instanceof Promise)) cached.count += count;
    },
  };
}

const families: Readonly<Record<string, Family>> = {
  crm_queue_items: {
    type: 'gauge',
    help: 'Number of waiting and dead items in a queue.',
  },
  crm_queue_oldest_seconds: {
    type: 'gauge',
    help: 'Age of the oldest waiting item of an enabled integration or subscription, or 0 if no items are waiting.',
  },
};

/**
 * Creates a queue's metrics.
 * @param name the value of the `queue` label
 */
export const queueMetrics = (database: Database, name: string, { table, owner }: Queue): Metrics => ({
  families,
  ofInstance: true,
  read: async (record) => {
    const [items, owners] = [sql.table(table), sql.table(owner.table)];
    const { rows } = await sql<{ waiting: string; dead: string; seconds: string }>`
      select
        (select count(*) from ${items} where status = 'waiting')::text as waiting,
        (select count(*) from ${items} where status = 'dead')::text as dead,
        (select greatest(0, coalesce(extract(epoch from now() - min(w.received_at)), 0)) from ${items} w
          join ${owners} g on g.organization_id = w.organization_id and g.id = ${sql.ref(`w.${owner.column}`)}
          where w.status = 'waiting' and ${sql.raw(owner.isOpen)})::text as seconds`.execute(
      tablesOf(database),
    );
    for (const { waiting, dead, seconds } of rows) {
      record('crm_queue_items', Number(waiting), { queue: name, state: 'waiting' });
      record('crm_queue_items', Number(dead), { queue: name, state: 'dead' });
      record('crm_queue_oldest_seconds', Number(seconds), { queue: name });
    }
  },
});
