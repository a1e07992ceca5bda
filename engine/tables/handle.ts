import { IsolationLevel } from '@mikro-orm/core';
import { CompiledQuery, type Kysely, sql } from 'kysely';
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
export const atOneMoment = <T>({ orm }: Database, work: (tables: Tables) => Promise<T>): Promise<T> =>
  orm.em.fork().transactional((em) => work(em.getKysely<TableRows>()), {
    isolationLevel: IsolationLevel.REPEATABLE_READ,
  });

/** Runs a statement for records within a transaction. @returns the id in its first row, if any */
export async function runForId(tables: Tables, { text, values }: Statement): Promise<string | undefined> {
  const { rows } = await tables.executeQuery<{ id: string }>(CompiledQuery.raw(text, [...values]));
  return rows[0]?.id;
}

/** Tries a statement and undoes it. @returns why it fails, also at the commit; undefined if it can be carried out */
export type Attempt = (statement: Statement) => Promise<unknown>;

/** Runs work that tries statements, each by itself; nothing of them stays. */
export async function attempts<T>({ orm }: Database, work: (attempt: Attempt) => Promise<T>): Promise<T> {
  const undone = new Error('undone');
  let result: T | undefined;
  try {
    await orm.em.fork().transactional(async (em) => {
      const tables = em.getKysely<TableRows>();
      result = await work(async ({ text, values }) => {
        await sql`savepoint _attempt`.execute(tables);
        try {
          await tables.executeQuery(CompiledQuery.raw(text, [...values]));
          await sql`set constraints all immediate`.execute(tables);
          return undefined;
        } catch (cause) {
          return cause;
        } finally {
          await sql`rollback to savepoint _attempt`.execute(tables);
        }
      });
      throw undone;
    });
  } catch (cause) {
    if (cause !== undone) throw cause;
  }
  return result as T;
}
