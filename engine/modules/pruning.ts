import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables/index.ts';

/** How often an instance removes old rows, in milliseconds. */
const everyMs = 10 * 60_000;
/** Rows that one statement removes, and the pause after it, in which other statements run. */
export const pruningStep = 500;
const pauseMs = 100;

/**
 * Removes old rows now and then, in small steps, while the service runs.
 * @param what is removed, as in "old events", for the log
 * @param steps each removes some rows and says how many, see {@link removeOld}
 */
export function pruneRegularly(
  app: FastifyInstance,
  what: string,
  steps: readonly (() => Promise<number>)[],
): void {
  const stopping = new AbortController();
  const { signal } = stopping;
  const sweep = async () => {
    for (const step of steps) {
      while (!signal.aborted && app.isReadOnly?.() !== true && (await step()) === pruningStep) {
        await pause(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      }
    }
  };
  // Before the one that awaits the work.
  app.addHook('preClose', async () => stopping.abort());
  app.background.every(app, what, everyMs, () =>
    sweep().catch((cause: { code?: string }) =>
      app.log.warn({ code: cause.code }, `${what} could not be removed; trying again later`),
    ),
  );
}

/**
 * Removes some rows of a table, those first that come first in an order.
 * @param key the columns of its primary key
 * @param old the condition of the rows to remove
 * @returns how many
 */
export async function removeOld(
  tables: Tables,
  table: string,
  key: readonly string[],
  old: RawBuilder<unknown>,
  order: string,
): Promise<number> {
  const same = key.map((column) => sql`i.${sql.ref(column)} = old.${sql.ref(column)}`);
  const { numAffectedRows = 0n } = await sql`
    -- Materialized: a join that evaluated this again for each row would lock, and delete, others each time.
    with old as materialized (
      select ${sql.join(key.map((column) => sql.ref(column)))} from ${sql.table(table)}
      where ${old} order by ${sql.ref(order)} limit ${sql.lit(pruningStep)} for update skip locked)
    delete from ${sql.table(table)} i using old where ${sql.join(same, sql` and `)}`.execute(tables);
  return Number(numAffectedRows);
}
