import { type Database, runShared } from '../../../engine/database/index.ts';
import { slugsOf, tablesOf } from '../../../engine/tables/index.ts';
import { type Measure, measuring } from './measure.ts';
import { limitsRecords, type QuotaSettings, type QuotaUsage, quotaExcess, quotaOf } from './quota.ts';

/** A count is made again after this time at the latest and at the soonest, in milliseconds. */
const [oldMs, youngMs] = [5000, 500];
/** Counting takes at most one part of so many of the time. */
const share = 10;

/** What was counted of an organization, and what it was allowed to add since. */
interface Counted extends QuotaUsage {
  readonly slugs: readonly string[];
  /** When it was counted by the clock of `performance`, and how long the database worked for it. */
  readonly at: number;
  readonly tookMs: number;
  added: number;
}

/** What the quotas module needs of a running service. */
export interface QuotaServices {
  readonly database: Database;
  readonly resources: readonly { readonly name: string }[];
  readonly settings: { readonly current: { readonly quotas: QuotaSettings } };
}

/** Whether organizations may have more records. */
export interface RecordQuotas {
  /**
   * Reserves records that are about to be created. Costs nothing where no quota is configured.
   * @throws HttpError 403 if the organization may not have so many more
   */
  readonly admit: (organization: string, count: number) => Promise<void> | undefined;
  /** What an organization has; undefined if it cannot be counted at the moment. */
  readonly usage: (organization: string) => Promise<QuotaUsage | undefined>;
}

/**
 * Counts now and then and not with each write, so that writes cost nothing more. What this process lets through in between is
 * added; what others do shows with the next count.
 * @param failed told when a count fails: then the one before counts, or nothing is refused
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
  /** Counts; who asks meanwhile gets the same count. */
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
        // What was deleted since makes room.
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
