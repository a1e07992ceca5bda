import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { prepare } from '../../engine/sql/index.ts';
import { keepEpoch } from './epoch.ts';

/** How often it is looked at, in milliseconds. */
const everyMs = 10_000;
/** How long one transaction may hold the feed up before the log says so, in milliseconds. */
export const tolerableMs = 10_000;

/** The oldest transaction that writes, of any database of the server. */
const oldest = prepare<undefined>(
  'ledger_lag',
  'read',
  () =>
    'select pg_snapshot_xmin(pg_current_snapshot())::text, (select pid::text from pg_stat_activity where backend_xid is not null order by age(backend_xid) desc limit 1)',
);

/** What the feed waits for. */
export interface Obstacle {
  /** Number of the transaction. */
  readonly transaction: string;
  /** Id of its server process; null for a prepared transaction. */
  readonly pid: string | null;
}

/** The transaction below which the feed ends. */
export async function obstacle(database: Database): Promise<Obstacle> {
  const [[transaction, pid = null] = []] = await database.run(oldest.bind(undefined));
  return { transaction: String(transaction), pid: pid === null ? null : String(pid) };
}

/** Keeps the epoch, and says in the log what holds the feed up. */
export function watchFeed(app: FastifyInstance, database: Database, isRecorded: boolean): void {
  let seen = { transaction: '', since: 0, isTold: false };
  const look = async (): Promise<void> => {
    await keepEpoch(database, isRecorded);
    const { transaction, pid } = await obstacle(database);
    const now = performance.now();
    if (transaction !== seen.transaction) seen = { transaction, since: now, isTold: false };
    // Where nothing writes the next transaction has that number for long.
    if (pid === null || seen.isTold || now - seen.since < tolerableMs) return;
    seen.isTold = true;
    const lagMs = Math.round(now - seen.since);
    app.log.warn(
      { pid, lag_ms: lagMs },
      'the change feed waits for a long transaction of the database server',
    );
  };
  let isFailing = false;
  app.background.every(app, 'the change feed', everyMs, async () => {
    try {
      await look();
      isFailing = false;
    } catch (cause) {
      const { code } = cause as { code?: string };
      // Once, for a database that is away for long.
      if (!isFailing) app.log.warn({ code }, 'the change feed cannot be looked at');
      isFailing = true;
    }
  });
}
