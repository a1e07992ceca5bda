import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import { deleteExpired, startRetention } from '../../engine/modules/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** Deletes a batch of items that finished more than `days` ago. Returns the number of deleted items. */
export const queueRetention = (
  tables: Tables,
  { table }: Queue,
  status: 'done' | 'dead',
  days: number,
): Promise<number> =>
  deleteExpired(
    tables,
    table,
    ['organization_id', 'id'],
    sql`status = ${sql.lit(status)} and done_at < now() - ${days}::int * interval '1 day'`,
    'done_at',
  );

/** Deletes old items in the background. @param days returns the current retention period for a state, in days */
export const startQueueRetention = (
  app: FastifyInstance,
  database: Database,
  queue: Queue,
  days: (status: 'done' | 'dead') => number,
): void =>
  startRetention(app, database, {
    label: `old ${queue.name} items`,
    steps: (['done', 'dead'] as const).map(
      (status) => (tables) => queueRetention(tables, queue, status, days(status)),
    ),
  });
