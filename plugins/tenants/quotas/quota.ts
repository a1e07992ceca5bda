import { errors, type HttpError } from '../../../engine/errors.ts';
import type { HomePage, Language, Text } from '../../admin-ui/shell/index.ts';
import { quotasTexts } from './texts/index.ts';

/** An organization's limits. 0 means unlimited. */
interface Quota {
  readonly records: number;
  /** Maximum number of active API keys. */
  readonly keys: number;
  /** Maximum size of the organization's records, in megabytes. */
  readonly storage_mb: number;
}

/** The quotas in config.yaml: the default quota, and quotas for individual organizations, keyed by slug. */
export interface QuotaSettings extends Quota {
  readonly organizations: Readonly<Record<string, Partial<Quota>>>;
}

/**
 * Returns an organization's quota.
 * @param slugs the organization's slugs, starting with the current one, because a quota configured under a
 * former slug still applies
 */
export function quotaOf({ organizations, ...defaults }: QuotaSettings, slugs: readonly string[]): Quota {
  const slug = slugs.find((name) => Object.hasOwn(organizations, name));
  return { ...defaults, ...(slug !== undefined && organizations[slug]) };
}

/** Returns whether any organization has a quota for records or storage. */
export const limitsRecords = ({ organizations, ...defaults }: QuotaSettings): boolean =>
  [defaults, ...Object.values(organizations)].some(
    ({ records = 0, storage_mb = 0 }) => records > 0 || storage_mb > 0,
  );

/** The number and size of an organization's records. */
export interface QuotaUsage {
  readonly records: number;
  readonly bytes: number;
}

export const bytesPerMb = 1024 * 1024;

/** Returns the error if an organization cannot create this many more records, or undefined if it can. */
export function quotaExcess(
  quota: Quota,
  { records, bytes }: QuotaUsage,
  newRecords: number,
): HttpError | undefined {
  if (quota.records > 0 && records + newRecords > quota.records)
    return errors.quotaExceeded(quota.records, 'records');
  if (quota.storage_mb > 0 && bytes >= quota.storage_mb * bytesPerMb)
    return errors.quotaExceeded(quota.storage_mb, 'megabytes');
  return undefined;
}

/** Returns the home page's line about a quota's usage, or an empty list if usage is unlimited. */
export function quotaLine(
  label: Text,
  { used, quota }: { readonly used: number; readonly quota: number },
  language: Language,
): HomePage['lines'] {
  if (quota === 0) return [];
  const t = quotasTexts(language);
  const numbers = new Intl.NumberFormat(language);
  const values = { label, used: numbers.format(used), quota: numbers.format(quota) };
  if (used >= quota) return [{ state: 'bad', text: t('exceeded', values) }];
  return [{ state: used >= 0.8 * quota ? 'warn' : 'good', text: t('usage', values) }];
}
