import type { Rows } from './database.ts';

/** How often to look, in milliseconds. */
const lookMs = 2000;

/**
 * Tables of which the planner knows nothing, or what was true before most of their rows were written. Takes no lock of
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
 * Has tables analyzed when many of their rows were written, until it is stopped. Prepared statements are planned again
 * after that, on every node. The embedded database has nobody else to do it. PostgreSQL's autovacuum does it within
 * minutes, where it is on; a plan that was made for an empty table meanwhile takes seconds instead of milliseconds.
 * @param run runs one statement
 * @returns stops it; resolves when nothing of it runs any more
 */
export function keepStatistics(run: (text: string) => Promise<Rows>): () => Promise<void> {
  /** Nothing is ever known of an empty table, so trying once is enough. */
  const tried = new Set<string>();
  let looking: Promise<void> | undefined;

  async function look(): Promise<void> {
    for (const [table, many] of await run(stale)) {
      if (table == null || (many !== 'true' && tried.has(table))) continue;
      tried.add(table);
      // Another node may be at it.
      await run(`analyze (skip_locked) ${table}`);
    }
  }
  const timer = setInterval(() => {
    looking ??= look()
      // What fails is tried again, whatever the reason.
      .catch(() => {})
      .finally(() => {
        looking = undefined;
      });
  }, lookMs).unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}
