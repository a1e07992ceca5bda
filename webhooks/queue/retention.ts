import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import { deleteExpired, startRetention } from '../../engine/modules/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** Removes some items that ended longer ago than the given time. @returns how many */
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

/** Removes old items. @param days how long those in a state are kept, at the moment */
export const startQueueRetention = (
  app: FastifyInstance,
  database: Database,
  queue: Queue,
  days: (status: 'done' | 'dead') => number,
): void =>
  startRetention(app, database, {
    what: `old items of ${queue.name}`,
    steps: (['done', 'dead'] as const).map(
      (status) => (tables) => queueRetention(tables, queue, status, days(status)),
    ),
  });
