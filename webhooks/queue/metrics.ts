import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { Family, Metrics } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

const families: Readonly<Record<string, Family>> = {
  crm_queue_items: {
    type: 'gauge',
    help: 'Items of a queue that wait to be processed, and those that were given up (dead).',
  },
  crm_queue_oldest_seconds: {
    type: 'gauge',
    help: 'Age of the oldest item that waits, of those whose integration or subscription is on; 0 where none waits.',
  },
};

/**
 * How much waits in a queue.
 * @param name of the queue, as a label
 */
export const queueMetrics = (database: Database, name: string, { table, owner }: Queue): Metrics => ({
  families,
  ofInstance: true,
  read: async (tell) => {
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
      tell('crm_queue_items', Number(waiting), { queue: name, state: 'waiting' });
      tell('crm_queue_items', Number(dead), { queue: name, state: 'dead' });
      tell('crm_queue_oldest_seconds', Number(seconds), { queue: name });
    }
  },
});
