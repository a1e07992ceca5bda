import { sql } from 'kysely';
import { type Database, ttlCache } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import type { Queue } from './queue.ts';

/** How many events of each organization wait to be processed. */
export interface Backlog {
  /** @throws HttpError 503, so that the provider retries, if `max` or more wait */
  readonly admit: (organization: string, max: number) => Promise<void>;
  /** Counts events that were just stored. */
  readonly add: (organization: string, count: number) => void;
}

/**
 * Bounds the waiting events of one organization. A node caches the count for a moment, so that a flood does not cost a
 * count for each delivery; several nodes may exceed the bound by the events that they store meanwhile.
 */
export function backlog(database: Database, { table }: Queue): Backlog {
  const waiting = ttlCache('backlogs', async (organization) => {
    const { rows } = await sql<{ count: string }>`
      select count(*)::text as count from ${sql.table(table)}
      where organization_id = ${organization}::bigint and status = 'waiting'`.execute(tablesOf(database));
    return { count: Number(rows[0]?.count) };
  });
  return {
    admit: async (organization, max) => {
      const known = await waiting.get(organization);
      if (known !== undefined && known.count >= max) throw errors.inboxFull();
    },
    add: (organization, count) => {
      const known = waiting.get(organization);
      if (known !== undefined && !(known instanceof Promise)) known.count += count;
    },
  };
}
