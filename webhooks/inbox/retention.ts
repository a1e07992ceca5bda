import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { pruneRegularly, pruningStep } from '../../engine/modules/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import type { Webhooks } from '../endpoint/index.ts';

/** Removes some events that ended longer ago than the given time. @returns how many */
export async function prune(tables: Tables, status: 'done' | 'dead', days: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    -- Materialized: a join that evaluated this again for each row would lock, and delete, others each time.
    with old as materialized (
      select organization_id, id from crm_inbox
      where status = ${sql.lit(status)} and done_at < now() - ${days}::int * interval '1 day'
      order by done_at limit ${sql.lit(pruningStep)} for update skip locked)
    delete from crm_inbox i using old
    where i.organization_id = old.organization_id and i.id = old.id`.execute(tables);
  return Number(numAffectedRows);
}

/** Removes old events as `retention` in config.yaml says. */
export const startRetention = (app: FastifyInstance, { database, settings }: Webhooks): void =>
  pruneRegularly(
    app,
    'old events',
    (['done', 'dead'] as const).map(
      (status) => () => prune(tablesOf(database), status, settings.current.retention[`inbox_${status}_days`]),
    ),
  );
