// Limits on the number of records of organizations, which a module sets for a database.
import type { Database } from '../database/index.ts';

/** Limits the number of records of organizations. */
export interface RecordLimits {
  /**
   * Reserves capacity for records before they are created. Returns undefined if capacity is unlimited. If the number of records is
   * 0, only makes sure that {@link reserveInTransaction} can compare with a limit.
   * @returns a function to call when the write has finished, successfully or not
   * @throws HttpError 403 if the organization's limit would be exceeded
   */
  readonly reserve: (organization: string, count: number) => Promise<() => void> | undefined;
  /**
   * Reserves capacity within a transaction, in which records cannot be counted. Returns undefined if capacity is unlimited.
   * @returns a function to call when the transaction has finished, successfully or not
   * @throws HttpError 403 if the organization's limit would be exceeded
   */
  readonly reserveInTransaction: (organization: string, count: number) => (() => void) | undefined;
}

const limits = new WeakMap<object, RecordLimits>();

/** Limits the number of records in a database. */
export function limitRecords(database: Database, recordLimits: RecordLimits): void {
  limits.set(database, recordLimits);
}

/** Reserves capacity for records, if their number is limited. */
export const reserveRecords = (
  database: Database,
  organization: string,
  count: number,
): ReturnType<RecordLimits['reserve']> => limits.get(database)?.reserve(organization, count);

/** Capacity for the records that a transaction creates. */
export interface TransactionReservation {
  /**
   * Reserves capacity for records before the transaction creates them.
   * @throws HttpError 403 if the organization's limit would be exceeded
   */
  readonly reserve: (count: number) => void;
  /** Called when the transaction has finished, successfully or not. */
  readonly release: () => void;
}

/**
 * Returns the capacity for the records of one transaction.
 * @param reserved number of records for which capacity was reserved before the transaction
 */
export function transactionReservation(
  database: Database,
  organization: string,
  reserved: number,
): TransactionReservation {
  const releases: (() => void)[] = [];
  let left = reserved;
  return {
    reserve: (count) => {
      const additional = Math.max(0, count - left);
      left = Math.max(0, left - count);
      if (additional === 0) return;
      const release = limits.get(database)?.reserveInTransaction(organization, additional);
      if (release !== undefined) releases.push(release);
    },
    release: () => {
      for (const release of releases) release();
    },
  };
}
