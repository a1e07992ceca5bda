import { sql } from 'kysely';
import { type Database, ttlCache } from '../../engine/database/index.ts';
import { errors } from '../../engine/errors.ts';
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
 * Creates a backlog. Each node caches the count briefly, so that a flood of deliveries does not cause a query per
 * delivery. As a result, several nodes together can slightly exceed the limit.
 */
export function backlog(database: Database, { table }: Queue): Backlog {
  const counts = ttlCache('backlogs', async (organization) => {
    const { rows } = await sql<{ count: string }>`
      select count(*)::text as count from ${sql.table(table)}
      where organization_id = ${organization}::bigint and status = 'waiting'`.execute(tablesOf(database));
    return { count: Number(rows[0]?.count) };
  });
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
