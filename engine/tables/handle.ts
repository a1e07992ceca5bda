import { IsolationLevel } from '@mikro-orm/core';
import { CompiledQuery, type Kysely } from 'kysely';
import type { Database } from '../database/index.ts';
import type { Statement } from '../sql/index.ts';
import type { TableRows } from './tables.ts';

/** Queries on the instance's tables; all or nothing inside {@link transaction}. */
export type Tables = Kysely<TableRows>;

/** The tables outside of a transaction. */
export const tablesOf = ({ orm }: Database): Tables => orm.em.fork().getKysely<TableRows>();

/** Runs work in a transaction. */
export const transaction = <T>({ orm }: Database, work: (tables: Tables) => Promise<T>): Promise<T> =>
  orm.em.fork().transactional((em) => work(em.getKysely<TableRows>()));

/** Runs work that sees the tables as they are at one moment, however long it takes and whatever others write meanwhile. */
export const inSnapshot = <T>({ orm }: Database, work: (tables: Tables) => Promise<T>): Promise<T> =>
  orm.em.fork().transactional((em) => work(em.getKysely<TableRows>()), {
    isolationLevel: IsolationLevel.REPEATABLE_READ,
  });

/** Runs a statement for records within a transaction. @returns the id in its first row, if any */
export async function runForId(tables: Tables, { text, values }: Statement): Promise<string | undefined> {
  const { rows } = await tables.executeQuery<{ id: string }>(CompiledQuery.raw(text, [...values]));
  return rows[0]?.id;
}
