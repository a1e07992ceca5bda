import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../database/index.ts';
import { type Tables, tablesOf } from '../tables/index.ts';

/** How often an instance removes old rows, in milliseconds. */
const everyMs = 10 * 60_000;
/** Rows that one statement removes, and the pause after it, in which other statements run. */
export const retentionBatch = 500;
const pauseMs = 100;

/** Something that is kept for a limited time. */
export interface RetentionRule {
  /** What is removed, as in "old events". */
  readonly what: string;
  /** Each removes some rows and says how many, see {@link deleteExpired}; a full {@link retentionBatch} if there may be more. */
  readonly steps: readonly ((tables: Tables) => Promise<number>)[];
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Everything that is removed after a time. */
    pruning: RetentionRule[];
  }
}

/** Removes old rows now and then, in small steps, while the service runs. */
export function startRetention(app: FastifyInstance, database: Database, pruned: RetentionRule): void {
  const { what, steps } = pruned;
  app.pruning.push(pruned);
  const stopping = new AbortController();
  const { signal } = stopping;
  const sweep = async () => {
    for (const step of steps) {
      while (
        !signal.aborted &&
        app.isReadOnly?.() !== true &&
        (await step(tablesOf(database))) === retentionBatch
      ) {
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
export async function deleteExpired(
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
      where ${old} order by ${sql.ref(order)} limit ${sql.lit(retentionBatch)} for update skip locked)
    delete from ${sql.table(table)} i using old where ${sql.join(same, sql` and `)}`.execute(tables);
  return Number(numAffectedRows);
}
