import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { pruneRegularly, removeOld } from '../../engine/modules/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import type { Webhooks } from '../endpoint/index.ts';

/** Removes some events that ended longer ago than the given time. @returns how many */
export const prune = (tables: Tables, status: 'done' | 'dead', days: number): Promise<number> =>
  removeOld(
    tables,
    'crm_inbox',
    ['organization_id', 'id'],
    sql`status = ${sql.lit(status)} and done_at < now() - ${days}::int * interval '1 day'`,
    'done_at',
  );

/** Removes old events as `retention` in config.yaml says. */
export const startRetention = (app: FastifyInstance, { database, settings }: Webhooks): void =>
  pruneRegularly(
    app,
    'old events',
    (['done', 'dead'] as const).map(
      (status) => () => prune(tablesOf(database), status, settings.current.retention[`inbox_${status}_days`]),
    ),
  );
