import type { TextRows } from './database.ts';

/** Interval between checks, in milliseconds. */
const checkIntervalMs = 2000;

/**
 * Selects tables that have no statistics, or whose statistics predate most of their rows. Does not lock
 * tables. Tables with other owners are omitted, because only the owner can analyze a table.
 */
const staleTables = `
  select quote_ident(c.relname), changes.many::text
  from pg_class c
  cross join lateral (
    select pg_stat_get_mod_since_analyze(c.oid) > greatest(250, c.reltuples) as many
  ) changes
  where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace and pg_has_role(c.relowner, 'usage')
    and (
      changes.many
      or not exists (select from pg_stats s where s.schemaname = current_schema() and s.tablename = c.relname)
    )`;

/**
 * Analyzes tables after many writes. Every node then replans its prepared statements. The embedded database
 * has no autovacuum, and on PostgreSQL autovacuum can take minutes to start. Until then, a statement planned
 * for an empty table takes seconds instead of milliseconds.
 * @param run runs one statement
 * @returns a function that stops the analysis and resolves when its last statement has finished
 */
export function analyzeAfterWrites(run: (text: string) => Promise<TextRows>): () => Promise<void> {
  /** Tables that were already analyzed. Empty tables never get statistics, so they are analyzed only once. */
  const attemptedTables = new Set<string>();
  let runningCheck: Promise<void> | undefined;

  async function check(): Promise<void> {
    for (const [table, hasManyChanges] of await run(staleTables)) {
      if (typeof table !== 'string' || (hasManyChanges !== 'true' && attemptedTables.has(table))) continue;
      attemptedTables.add(table);
      // Another node might be analyzing the table.
      await run(`analyze (skip_locked) ${table}`);
    }
  }
  const timer = setInterval(() => {
    runningCheck ??= check()
      // Failures are retried at the next check.
      .catch(() => {})
      .finally(() => {
        runningCheck = undefined;
      });
  }, checkIntervalMs).unref();
  return async () => {
    clearInterval(timer);
    await runningCheck;
  };
}
