import type { TextRows } from './database.ts';

/** How often to check, in milliseconds. */
const checkIntervalMs = 2000;

/**
 * Tables without statistics, or whose statistics predate most of their rows. Takes no lock of
 * a table. Only its owner may analyze one.
 */
const stale = `
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
 * Analyzes tables after many rows were written, until it is stopped. Prepared statements are planned again
 * after that, on every node. The embedded database has no autovacuum. PostgreSQL's autovacuum runs within
 * minutes, if it is on; until then a plan for an empty table takes seconds instead of milliseconds.
 * @param run runs one statement
 * @returns stops it; resolves when no statement of it runs any more
 */
export function analyzeAfterWrites(run: (text: string) => Promise<TextRows>): () => Promise<void> {
  /** Empty tables never get statistics, so trying once is enough. */
  const tried = new Set<string>();
  let checking: Promise<void> | undefined;

  async function check(): Promise<void> {
    for (const [table, many] of await run(stale)) {
      if (typeof table !== 'string' || (many !== 'true' && tried.has(table))) continue;
      tried.add(table);
      // Another node may be analyzing.
      await run(`analyze (skip_locked) ${table}`);
    }
  }
  const timer = setInterval(() => {
    checking ??= check()
      // Every failure is retried.
      .catch(() => {})
      .finally(() => {
        checking = undefined;
      });
  }, checkIntervalMs).unref();
  return async () => {
    clearInterval(timer);
    await checking;
  };
}
