import { type Database, runShared } from '../../../engine/database/index.ts';
import { slugsOf, tablesOf } from '../../../engine/tables/index.ts';
import { type Measure, measuring } from './measure.ts';
import { limitsRecords, type QuotaSettings, type QuotaUsage, quotaExcess, quotaOf } from './quota.ts';

/** Maximum and minimum time between two counts, in milliseconds. */
const [oldMs, youngMs] = [5000, 500];
/** Counting takes at most 1 / this value of the time. */
const share = 10;

/** An organization's last count, and the records reserved since then. */
interface Counted extends QuotaUsage {
  readonly slugs: readonly string[];
  /** Time of the count by `performance.now()`, and the time that the database worked on it, in milliseconds. */
  readonly at: number;
  readonly tookMs: number;
  added: number;
}

/** Services that the quotas module needs. */
export interface QuotaServices {
  readonly database: Database;
  readonly resources: readonly { readonly name: string }[];
  readonly settings: { readonly current: { readonly quotas: QuotaSettings } };
}

/** Enforces the quotas on records. */
export interface RecordQuotas {
  /**
   * Reserves records before they are created. Costs nothing without a configured quota.
   * @throws HttpError 403 if the records would exceed the quota
   */
  readonly admit: (organization: string, count: number) => Promise<void> | undefined;
  /** Returns an organization's usage, or undefined if it cannot be counted at the moment. */
  readonly usage: (organization: string) => Promise<QuotaUsage | undefined>;
}

/**
 * Counts periodically instead of on every write, so that writes cost nothing extra. Records created by this process
 * between two counts are added; those created by other processes are included in the next count.
 * @param failed called when a count fails; the previous count then stays in use, and without one nothing is rejected
 */
export function recordQuotas(
  { database, resources, settings }: QuotaServices,
  failed: (cause: unknown) => void,
): RecordQuotas {
  const measure: Measure = measuring(
    database,
    resources.map(({ name }) => name),
  );
  const known = new Map<string, Counted>();
  const counting = new Map<string, Promise<Counted | undefined>>();

  const countNow = async (organization: string): Promise<Counted | undefined> => {
    const before = known.get(organization);
    const already = before?.added ?? 0;
    const at = performance.now();
    try {
      const slugs = await slugsOf(tablesOf(database), organization);
      const withBytes = quotaOf(settings.current.quotas, slugs).storage_mb > 0;
      const { tookMs, ...usage } = await measure(organization, withBytes);
      const added = (before?.added ?? 0) - already;
      const counted = { ...usage, slugs, at, tookMs, added };
      known.set(organization, counted);
      return counted;
    } catch (cause) {
      failed(cause);
      return before;
    }
  };
  /** Counts once. Concurrent callers share the result. */
  const count = (organization: string): Promise<Counted | undefined> => {
    const under = counting.get(organization);
    if (under !== undefined) return under;
    const started = runShared(() => countNow(organization)).finally(() => counting.delete(organization));
    counting.set(organization, started);
    return started;
  };
  const isOlder = ({ at, tookMs }: Counted, ms: number) =>
    performance.now() - at > Math.max(ms, share * tookMs);
  const current = async (organization: string): Promise<Counted | undefined> => {
    const counted = known.get(organization);
    if (counted === undefined) return count(organization);
    if (isOlder(counted, oldMs)) void count(organization);
    return counted;
  };
  const usageOf = ({ records, added, bytes }: Counted): QuotaUsage => ({ records: records + added, bytes });
  const refusal = (counted: Counted, more: number) =>
    quotaExcess(quotaOf(settings.current.quotas, counted.slugs), usageOf(counted), more);

  return {
    admit: (organization, more) => {
      if (!limitsRecords(settings.current.quotas)) return undefined;
      return (async () => {
        let counted = await current(organization);
        // Records deleted since the last count free up space.
        if (counted && refusal(counted, more) && isOlder(counted, youngMs))
          counted = await count(organization);
        if (counted === undefined) return;
        const refused = refusal(counted, more);
        if (refused !== undefined) throw refused;
        counted.added += more;
      })();
    },
    usage: async (organization) => {
      const counted = await current(organization);
      return counted && usageOf(counted);
    },
  };
}
