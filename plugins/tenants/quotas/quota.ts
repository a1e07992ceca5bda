import { errors, type HttpError } from '../../../engine/errors.ts';
import type { HomePage } from '../../admin-ui/shell/index.ts';

/** How much an organization may have at most; 0: as much as it likes. */
export interface Quota {
  readonly records: number;
  /** API keys that work. */
  readonly keys: number;
  /** What its records take. */
  readonly storage_mb: number;
}

/** The quotas in config.yaml: of every organization, and of some by their slugs. */
export interface QuotaSettings extends Quota {
  readonly organizations: Readonly<Record<string, Partial<Quota>>>;
}

/**
 * The quota of an organization.
 * @param slugs of the organization, the current one first: a quota given by a former slug stays in force
 */
export function quotaOf({ organizations, ...all }: QuotaSettings, slugs: readonly string[]): Quota {
  const slug = slugs.find((each) => Object.hasOwn(organizations, each));
  return { ...all, ...(slug !== undefined && organizations[slug]) };
}

/** Whether the records of any organization are bounded. */
export const limitsRecords = ({ organizations, ...all }: QuotaSettings): boolean =>
  [all, ...Object.values(organizations)].some(
    ({ records = 0, storage_mb = 0 }) => records > 0 || storage_mb > 0,
  );

/** The records of an organization. */
export interface QuotaUsage {
  readonly records: number;
  readonly bytes: number;
}

export const bytesPerMb = 1024 * 1024;

/** Why an organization may have no more records, so many more; undefined if it may. */
export function quotaExcess(
  quota: Quota,
  { records, bytes }: QuotaUsage,
  more: number,
): HttpError | undefined {
  if (quota.records > 0 && records + more > quota.records)
    return errors.quotaExceeded(`${quota.records} records`);
  if (quota.storage_mb > 0 && bytes >= quota.storage_mb * bytesPerMb)
    return errors.quotaExceeded(`${quota.storage_mb} MB of records`);
  return undefined;
}

const number = new Intl.NumberFormat('en');

/** A line of the home page: how much of a quota is used. No line where there is none. */
export function quotaLine(what: string, used: number, quota: number): HomePage['lines'] {
  if (quota === 0) return [];
  const text = `${what}: ${number.format(used)} of ${number.format(quota)}.`;
  if (used >= quota) return [{ state: 'bad', text: `${text} You cannot create more.` }];
  return [{ state: used >= 0.8 * quota ? 'warn' : 'good', text }];
}
