import { AsyncLocalStorage } from 'node:async_hooks';
import { IsolationLevel } from '@mikro-orm/core';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely';
import { admitted, type Database } from '../database/index.ts';
import type { Statement } from '../sql/index.ts';
import type { TableRows } from './tables.ts';

/** Queries on the instance's tables; all or nothing inside {@link transaction}. */
export type Tables = Kysely<TableRows>;

const handles = new WeakMap<Database['orm'], Tables>();

/** The tables outside of a transaction. Each statement of a request waits for its organization's turn. */
export function tablesOf(database: Database): Tables {
  let tables = handles.get(database.orm);
  if (tables === undefined) {
    tables = new Kysely<TableRows>({ dialect: admittedDialect(database) });
    handles.set(database.orm, tables);
  }
  return tables;
}

/** Runs work in a transaction, when the organization of the request has its turn. */
export const transaction = <T>(
  { orm, admission }: Pick<Database, 'orm' | 'admission'>,
  work: (tables: Tables) => Promise<T>,
): Promise<T> =>
  admitted(admission, () => orm.em.fork().transactional((em) => work(em.getKysely<TableRows>())));

/**
 * Runs queries that only read in a transaction. On PostgreSQL, the running query is cancelled when the client of the request
 * disconnects.
 */
export const readTransaction = <T>(
  { orm, admission }: Pick<Database, 'orm' | 'admission'>,
  work: (tables: Tables) => Promise<T>,
): Promise<T> =>
  admitted(admission, () =>
    orm.em.fork().transactional((em) => work(em.getKysely<TableRows>()), { readOnly: true }),
  );

/** Runs work on a consistent snapshot of the tables, however long it takes. */
export const inSnapshot = <T>(
  { orm, admission }: Pick<Database, 'orm' | 'admission'>,
  work: (tables: Tables) => Promise<T>,
): Promise<T> =>
  admitted(admission, () =>
    orm.em.fork().transactional((em) => work(em.getKysely<TableRows>()), {
      isolationLevel: IsolationLevel.REPEATABLE_READ,
    }),
  );

/** Runs a statement for records within a transaction. @returns the id in its first row, if any */
export async function runForId(tables: Tables, { text, values }: Statement): Promise<string | undefined> {
  const { rows } = await tables.executeQuery<{ id: string }>(CompiledQuery.raw(text, [...values]));
  return rows[0]?.id;
}

/** Tries a statement and undoes it. @returns why it fails, also at the commit; undefined if it can be carried out */
export type Attempt = (statement: Statement) => Promise<unknown>;

/** Runs work that tries statements one by one, and undoes all of them. */
export async function tryStatements<T>(
  database: Pick<Database, 'orm' | 'admission'>,
  work: (attempt: Attempt) => Promise<T>,
): Promise<T> {
  const rollback = new Error('undone');
  let result: T | undefined;
  try {
    await transaction(database, async (tables) => {
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
      throw rollback;
    });
  } catch (cause) {
    if (cause !== rollback) throw cause;
  }
  return result as T;
}

/** A connection that a statement has until it releases it. */
interface AdmittedConnection extends DatabaseConnection {
  readonly release: () => void;
}

/** Kysely on the connections of MikroORM, each taken through admission. */
function admittedDialect({ orm, admission }: Database): Dialect {
  const acquire = (): Promise<DatabaseConnection> =>
    new Promise((resolve, reject) => {
      const executor = orm.em.fork().getKysely<TableRows>().getExecutor();
      const useConnection = (connection: DatabaseConnection) =>
        new Promise<void>((release) => {
          // The statement is sent by the caller, who holds no slot in its own context.
          const runInContext = AsyncLocalStorage.snapshot();
          const admittedConnection: AdmittedConnection = {
            executeQuery: (query) => runInContext(() => connection.executeQuery(query)),
            streamQuery: (query, chunkSize) => connection.streamQuery(query, chunkSize),
            cancelQuery: () => Promise.resolve(),
            collectSessionInfo: () => Promise.resolve(),
            killSession: () => Promise.resolve(),
            release,
          };
          resolve(admittedConnection);
        });
      admitted(admission, () => executor.provideConnection(useConnection)).catch(reject);
    });
  const noTransaction = async () => {
    throw new Error('transactions begin with transaction()');
  };
  const driver: Driver = {
    init: async () => {},
    acquireConnection: acquire,
    beginTransaction: noTransaction,
    commitTransaction: noTransaction,
    rollbackTransaction: noTransaction,
    releaseConnection: async (connection) => (connection as AdmittedConnection).release(),
    destroy: async () => {},
  };
  return {
    createDriver: () => driver,
    createAdapter: () => new PostgresAdapter(),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createIntrospector: (tables) => new PostgresIntrospector(tables),
  };
}
