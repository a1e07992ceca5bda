import type { Kysely } from 'kysely';
import type { Database } from '../database/index.ts';
import { UserError } from '../errors.ts';
import type { PlatformTables } from './tables.ts';

/** The platform's tables, inside a transaction where `transaction` made it. */
export type Platform = Kysely<PlatformTables>;

/** The platform's tables outside of a transaction. */
export const platform = ({ orm }: Database): Platform => orm.em.fork().getKysely<PlatformTables>();

/** Runs work that is all done or not at all. */
export const transaction = <T>({ orm }: Database, work: (tables: Platform) => Promise<T>): Promise<T> =>
  orm.em.fork().transactional((em) => work(em.getKysely<PlatformTables>()));

/** A name that can be stored and shown. */
export function plain(text: string, what: string): string {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed.length > 200 || trimmed.includes('\0') || !trimmed.isWellFormed()) {
    throw new UserError(`${what} must have 1 to 200 characters`);
  }
  return trimmed;
}
