import { CompiledQuery, type Kysely } from 'kysely';
import type { Database } from '../database/index.ts';
import { UserError } from '../errors.ts';
import { isStorable } from '../fields/index.ts';
import type { Statement } from '../sql/index.ts';
import type { PlatformTables } from './tables.ts';

/** The platform's tables, inside a transaction where `transaction` made it. */
export type Platform = Kysely<PlatformTables>;

/** The platform's tables outside of a transaction. */
export const platform = ({ orm }: Database): Platform => orm.em.fork().getKysely<PlatformTables>();

/** Runs work that is all done or not at all. */
export const transaction = <T>({ orm }: Database, work: (tables: Platform) => Promise<T>): Promise<T> =>
  orm.em.fork().transactional((em) => work(em.getKysely<PlatformTables>()));

/** Runs a statement for records within a transaction of the platform. @returns the id that it gives, if any */
export async function runForId(tables: Platform, { text, values }: Statement): Promise<string | undefined> {
  const { rows } = await tables.executeQuery<{ id: string }>(CompiledQuery.raw(text, [...values]));
  return rows[0]?.id;
}

/** A name that can be stored and shown. */
export function plain(text: string, what: string): string {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed.length > 200 || !isStorable(trimmed)) {
    throw new UserError(`${what} must have 1 to 200 characters`);
  }
  return trimmed;
}
