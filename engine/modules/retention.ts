import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type RawBuilder, sql } from 'kysely';
import { type Database, failureDetails } from '../database/index.ts';
import { type Tables, tablesOf } from '../tables/index.ts';

/** Interval at which an instance deletes old rows, in milliseconds. */
const intervalMs = 10 * 60_000;
/** Maximum number of rows deleted by one statement. Other statements can run between batches. */
export const retentionBatch = 500;
const pauseMs = 100;

/** A rule that deletes rows after a retention period. */
export interface RetentionRule {
  /** Name of the rows in messages, for example "old events". */
  readonly label: string;
  /**
   * Steps, each of which deletes a batch of rows and returns the number of rows deleted. A step runs again
   * if it has deleted a full {@link retentionBatch}.
   */
  readonly steps: readonly ((tables: Tables) => Promise<number>)[];
  /** Returns the number of expired rows. Required if the steps do not delete with the given tables, so that their deletes cannot be rolled back. */
  readonly count?: (tables: Tables) => Promise<number>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** All retention rules. */
    retentionRules: RetentionRule[];
  }
}

/** Deletes old rows periodically in small steps while the service runs. */
export function startRetention(app: FastifyInstance, database: Database, rule: RetentionRule): void {
  const { label, steps } = rule;
  app.retentionRules.push(rule);
  const controller = new AbortController();
  const { signal } = controller;
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
  // Registered before the hook that awaits the work, so that the work stops after the current batch.
  app.addHook('preClose', async () => controller.abort());
  app.background.every(app, label, intervalMs, () =>
    sweep().catch((cause: unknown) =>
      app.log.warn(failureDetails(cause), `could not delete ${label}; will retry later`),
    ),
  );
}

/**
 * Deletes a batch of rows, ordered by the `order` column.
 * @param key columns of the primary key
 * @param condition selects the rows to delete
 * @returns the number of rows deleted
 */
export async function deleteExpired(
  tables: Tables,
  table: string,
  key: readonly string[],
  condition: RawBuilder<unknown>,
  order: string,
): Promise<number> {
  const keyConditions = key.map((column) => sql`i.${sql.ref(column)} = old.${sql.ref(column)}`);
  const { numAffectedRows = 0n } = await sql`
    -- Materialized: re-evaluating this for each row of a join would lock and delete additional rows.
    with old as materialized (
      select ${sql.join(key.map((column) => sql.ref(column)))} from ${sql.table(table)}
      where ${condition} order by ${sql.ref(order)} limit ${sql.lit(retentionBatch)} for update skip locked)
    delete from ${sql.table(table)} i using old where ${sql.join(keyConditions, sql` and `)}`.execute(tables);
  return Number(numAffectedRows);
}
