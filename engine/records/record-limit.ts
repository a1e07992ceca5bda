import type { Database } from '../database/index.ts';

/**
 * Reserves records before they are created. Returns undefined if the number of records is not limited.
 * @throws HttpError 403 if the organization's limit would be exceeded
 */
export type ReserveRecords = (organization: string, count: number) => Promise<void> | undefined;

const limits = new WeakMap<Database, ReserveRecords>();

/** Limits the number of records in a database. Every creation of records calls the function first. */
export function limitRecords(database: Database, reserve: ReserveRecords): void {
  limits.set(database, reserve);
}

/** Reserves at least this number of records, if their number is limited. */
export const reserveRecords: (
  database: Database,
  ...reservation: Parameters<ReserveRecords>
) => ReturnType<ReserveRecords> = (database, organization, count) =>
  limits.get(database)?.(organization, count);
