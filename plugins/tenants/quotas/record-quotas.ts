import { type Database, runShared, type TextRows } from '../../../engine/database/index.ts';
import type { RecordLimits } from '../../../engine/records/index.ts';
import { literal, prepare, quote } from '../../../engine/sql/index.ts';
import { slugsOf, tablesOf } from '../../../engine/tables/index.ts';
import { limitsRecords, type QuotaSettings, type QuotaUsage, quotaExcess, quotaOf } from './quota.ts';

/** Number of rows to count per statement. Counting them takes a few milliseconds. */
const rowsPerStatement = 20_000;
/** Storage overhead per row, in bytes. */
const rowOverhead = 28;

/** Counts an organization's records. `tookMs` is the statements' total run time, without queueing. */
type Measure = (
  organization: string,
  withBytes: boolean,
) => Promise<QuotaUsage & { readonly tookMs: number }>;

/**
 * Creates a function that counts records. The function reads each table in key order with short statements, so that
 * statements from requests can run in between.
 * @param names the resources' tables
 */
function createMeasure(database: Database, names: readonly string[]): Measure {
  return async (organization, withBytes) => {
    let [records, bytes, tookMs] = [0, 0, 0];
    const run = (text: string, values: readonly string[] = []) => {
      const measure = async () => {
        const startedAt = performance.now();
        const rows = await database.run({ name: '', text, values, lane: 'scan' });
        tookMs += performance.now() - startedAt;
        return rows;
      };
      return database.schedule(measure, { organization, lane: 'scan' });
    };
    for (const name of names) {
      const bytesOfRow = withBytes ? await sizeOf(run, name) : '0';
      let after = '0';
      for (let rowCount = rowsPerStatement; rowCount === rowsPerStatement; ) {
        const { text, values } = prepare<{ readonly after: string }>('', 'scan', ($) => {
          const bound = `t."organization_id" = ${$(() => organization)}::bigint and t."id" > ${$(({ after }) => after)}::bigint`;
          return `select count(*)::text, coalesce(sum(_bytes), 0)::text, max("id")::text from (select t."id", ${bytesOfRow} as _bytes from ${quote(name)} t where ${bound} order by t."id" limit ${rowsPerStatement}) _t`;
        }).bind({ after });
        const [[count, size, lastId] = []] = await run(text, values as readonly string[]);
        rowCount = Number(count);
        records += rowCount;
        bytes += Number(size);
        after = String(lastId ?? after);
      }
    }
    return { records, bytes, tookMs };
  };
}

/** Returns an SQL expression for a row's size in bytes. It does not read out-of-line values. */
async function sizeOf(run: (text: string) => Promise<TextRows>, name: string): Promise<string> {
  const columns = await run(
    `select attname::text from pg_attribute where attrelid = ${literal(quote(name))}::regclass and attnum > 0 and not attisdropped`,
  );
  return [
    String(rowOverhead),
    ...columns.map(([column]) => `coalesce(pg_column_size(t.${quote(String(column))}), 0)`),
  ].join(' + ');
}

/**
 * Age at which a count is refreshed, and minimum age for refreshing it before a write is rejected, in
 * milliseconds.
 */
const [refreshMs, minAgeMs] = [5000, 500];
/** Divisor that limits the share of time spent on counting. */
const shareDivisor = 10;

/** An organization's last count, and the number of records reserved since then. */
interface RecordCount extends QuotaUsage {
  readonly slugs: readonly string[];
  /** When the count started (`performance.now()`), and its statements' total run time, in milliseconds. */
  readonly at: number;
  readonly tookMs: number;
  added: number;
}

/** Services required for quotas. */
export interface QuotaServices {
  readonly database: Database;
  readonly resources: readonly { readonly name: string }[];
  readonly settings: { readonly current: { readonly quotas: QuotaSettings } };
}

/** Enforces record quotas. */
export interface RecordQuotas extends RecordLimits {
  /** Returns an organization's usage, or undefined if it cannot currently be counted. */
  readonly usage: (organization: string) => Promise<QuotaUsage | undefined>;
}

/**
 * Counts periodically instead of on every write, to keep writes cheap. Between counts, records created by
 * this process are added, and records created by other processes are included in the next count. Records
 * whose writes are still running when a count starts are also added, because the count might miss them.
 * @param onError called when a count fails. The previous count stays in use. Without a previous count, writes
 * are not rejected.
 */
export function recordQuotas(
  { database, resources, settings }: QuotaServices,
  onError: (cause: unknown) => void,
): RecordQuotas {
  const measure: Measure = createMeasure(
    database,
    resources.map(({ name }) => name),
  );
  const counts = new Map<string, RecordCount>();
  const counting = new Map<string, Promise<RecordCount | undefined>>();
  /** Number of reserved records whose writes are running, by organization. A count might miss them. */
  const unfinished = new Map<string, number>();

  const countNow = async (organization: string): Promise<RecordCount | undefined> => {
    const previous = counts.get(organization);
    const addedBefore = (previous?.added ?? 0) - (unfinished.get(organization) ?? 0);
    const at = performance.now();
    try {
      const slugs = await slugsOf(tablesOf(database), organization);
      const withBytes = quotaOf(settings.current.quotas, slugs).storage_mb > 0;
      const { tookMs, ...usage } = await measure(organization, withBytes);
      const added = (previous?.added ?? 0) - addedBefore;
      const lastCount = { ...usage, slugs, at, tookMs, added };
      counts.set(organization, lastCount);
      return lastCount;
    } catch (cause) {
      onError(cause);
      return previous;
    }
  };
  /** Counts an organization's records. Concurrent callers share the result. */
  const count = (organization: string): Promise<RecordCount | undefined> => {
    const pending = counting.get(organization);
    if (pending !== undefined) return pending;
    const promise = runShared(organization, () => countNow(organization)).finally(() =>
      counting.delete(organization),
    );
    counting.set(organization, promise);
    return promise;
  };
  const addUnfinished = (organization: string, change: number) => {
    const sum = (unfinished.get(organization) ?? 0) + change;
    if (sum === 0) unfinished.delete(organization);
    else unfinished.set(organization, sum);
  };
  const isOlder = ({ at, tookMs }: RecordCount, ms: number) =>
    performance.now() - at > Math.max(ms, shareDivisor * tookMs);
  const current = async (organization: string): Promise<RecordCount | undefined> => {
    const lastCount = counts.get(organization);
    if (lastCount === undefined) return count(organization);
    if (isOlder(lastCount, refreshMs)) void count(organization);
    return lastCount;
  };
  const usageOf = ({ records, added, bytes }: RecordCount): QuotaUsage => ({
    records: records + added,
    bytes,
  });
  const excessOf = (lastCount: RecordCount, newRecords: number) =>
    quotaExcess(quotaOf(settings.current.quotas, lastCount.slugs), usageOf(lastCount), newRecords);

  const add = (lastCount: RecordCount, organization: string, newRecords: number) => {
    lastCount.added += newRecords;
    addUnfinished(organization, newRecords);
    return () => addUnfinished(organization, -newRecords);
  };

  return {
    reserve: (organization, newRecords) => {
      if (!limitsRecords(settings.current.quotas)) return undefined;
      return (async () => {
        let lastCount = await current(organization);
        if (newRecords === 0) return () => {};
        // Records deleted since the last count have freed up space.
        if (lastCount && excessOf(lastCount, newRecords) && isOlder(lastCount, minAgeMs))
          lastCount = await count(organization);
        if (lastCount === undefined) return () => {};
        const excess = excessOf(lastCount, newRecords);
        if (excess !== undefined) throw excess;
        return add(lastCount, organization, newRecords);
      })();
    },
    reserveInTransaction: (organization, newRecords) => {
      const lastCount = counts.get(organization);
      if (lastCount === undefined || !limitsRecords(settings.current.quotas)) return undefined;
      const excess = excessOf(lastCount, newRecords);
      if (excess === undefined) return add(lastCount, organization, newRecords);
      // After records were deleted, the next attempt succeeds.
      if (isOlder(lastCount, minAgeMs)) void count(organization);
      throw excess;
    },
    usage: async (organization) => {
      const lastCount = await current(organization);
      return lastCount && usageOf(lastCount);
    },
  };
}
