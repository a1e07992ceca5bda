import type { FastifyInstance } from 'fastify';
import { type Database, failureDetails } from '../../engine/database/index.ts';
import type { Metrics } from '../../engine/modules/index.ts';
import { prepare } from '../../engine/sql/index.ts';
import { ensureEpoch } from './epoch.ts';

/** Interval between checks, in milliseconds. */
const intervalMs = 10_000;
/** Age at which a blocking transaction is logged, in milliseconds. */
export const lagWarningMs = 10_000;

/**
 * Statement that returns the server's oldest writing transaction, its age, and the number of transactions started after
 * it.
 */
const oldestTransaction = prepare<undefined>(
  'ledger_lag',
  'read',
  () =>
    'select pg_snapshot_xmin(_s)::text, _o."pid"::text, _o."seconds"::text, (pg_snapshot_xmax(_s)::text::bigint - pg_snapshot_xmin(_s)::text::bigint)::text from pg_current_snapshot() _s left join (select "pid", extract(epoch from clock_timestamp() - "xact_start") as "seconds" from pg_stat_activity where "backend_xid" is not null order by age("backend_xid") desc limit 1) _o on true',
);

/** The transaction that the feed is waiting for. */
interface FeedBlocker {
  /** Transaction ID. */
  readonly transaction: string;
  /** ID of the transaction's server process, or null for a prepared transaction. */
  readonly pid: string | null;
  /** The transaction's age in seconds, or null if this role cannot see it. */
  readonly seconds: number | null;
  /** Number of transactions that started later, whose changes are delayed. */
  readonly behind: number;
}

/** Returns the oldest writing transaction. The feed ends before its changes. */
export async function findFeedBlocker(database: Database): Promise<FeedBlocker> {
  const [[transaction, pid = null, seconds = null, behind] = []] = await database.run(
    oldestTransaction.bind(undefined),
  );
  return {
    transaction: String(transaction),
    pid: pid === null ? null : String(pid),
    seconds: seconds === null ? null : Number(seconds),
    behind: Number(behind),
  };
}

/** Metrics for the feed's delay. */
export const feedMetrics = (database: Database): Metrics => ({
  families: {
    crm_feed_lag_seconds: {
      type: 'gauge',
      help: 'Age of the oldest open write transaction on the database server, which holds back the change feed.',
    },
    crm_feed_behind_transactions: {
      type: 'gauge',
      help: 'Number of transactions started after the oldest open write transaction. Their changes are not in the change feed yet.',
    },
  },
  ofInstance: true,
  read: async (report) => {
    const { pid, seconds, behind } = await findFeedBlocker(database);
    if (pid === null || seconds !== null) report('crm_feed_lag_seconds', Math.max(0, seconds ?? 0));
    report('crm_feed_behind_transactions', behind);
  },
});

/**
 * Maintains the epoch, and logs transactions that delay the feed.
 * @param warningMs how long the feed waits for a transaction before it is logged, in milliseconds
 */
export function watchFeed(
  app: FastifyInstance,
  database: Database,
  isRecorded: boolean,
  warningMs = lagWarningMs,
): void {
  let blocker = { transaction: '', since: 0, isLogged: false };
  const check = async (): Promise<void> => {
    await ensureEpoch(database, isRecorded);
    const { transaction, pid } = await findFeedBlocker(database);
    const now = performance.now();
    if (transaction !== blocker.transaction) blocker = { transaction, since: now, isLogged: false };
    // If no transaction is running, the ID belongs to the next transaction and can stay the same for a long time.
    if (pid === null || blocker.isLogged || now - blocker.since < warningMs) return;
    blocker.isLogged = true;
    const lagMs = Math.round(now - blocker.since);
    app.log.warn(
      { pid, lag_ms: lagMs },
      'the change feed is waiting for a long-running transaction on the database server',
    );
  };
  let isFailing = false;
  app.background.every(app, 'the change feed', intervalMs, async () => {
    try {
      await check();
      isFailing = false;
    } catch (cause) {
      // Failures are logged once per outage.
      if (!isFailing) app.log.warn(failureDetails(cause), 'failed to check the change feed');
      isFailing = true;
    }
  });
}
