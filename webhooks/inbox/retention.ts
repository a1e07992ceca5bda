import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import type { Webhooks } from '../endpoint/index.ts';

/** How often a node removes old events, in milliseconds. */
const everyMs = 10 * 60_000;
/** Rows that one statement removes, and the pause after it, in which other statements run. */
const step = 500;
const pauseMs = 100;

/** Removes up to `step` events that ended longer ago than the given time. @returns how many */
export async function prune(tables: Tables, status: 'done' | 'dead', days: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    -- Materialized: a join that evaluated this again for each row would lock, and delete, others each time.
    with old as materialized (
      select organization_id, id from crm_inbox
      where status = ${sql.lit(status)} and done_at < now() - ${days}::int * interval '1 day'
      order by done_at limit ${sql.lit(step)} for update skip locked)
    delete from crm_inbox i using old
    where i.organization_id = old.organization_id and i.id = old.id`.execute(tables);
  return Number(numAffectedRows);
}

/** Removes old events as `retention` in config.yaml says, in small steps. */
export function startRetention(app: FastifyInstance, { database, settings }: Webhooks): void {
  const stopping = new AbortController();
  const { signal } = stopping;
  const sweep = async () => {
    for (const status of ['done', 'dead'] as const) {
      const days = () => settings.current.retention[`inbox_${status}_days`];
      while (!signal.aborted && (await prune(tablesOf(database), status, days())) === step) {
        await pause(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      }
    }
  };
  let running: Promise<void> | undefined;
  const begin = () => {
    running ??= sweep()
      .catch((cause: { code?: string }) =>
        app.log.warn({ code: cause.code }, 'old events could not be removed; trying again later'),
      )
      .finally(() => {
        running = undefined;
      });
  };
  const timer = setInterval(begin, everyMs).unref();
  app.addHook('onReady', async () => begin());
  app.addHook('preClose', async () => {
    stopping.abort();
    clearInterval(timer);
    await running;
  });
}
