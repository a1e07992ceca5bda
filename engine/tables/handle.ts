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
} from 'kysely';
import type { Database } from '../database/index.ts';
import type { Statement } from '../sql/index.ts';
import type { TableRows } from './tables.ts';

/** Query builder for the instance's tables. Inside {@link transaction}, queries are atomic. */
export type Tables = Kysely<TableRows>;

const handles = new WeakMap<Database['orm'], Tables>();

/** Returns a query builder without a transaction. Each statement waits for a slot for its organization. */
export function tablesOf(database: Database): Tables {
  let tables = handles.get(database.orm);
  if (tables === undefined) {
    tables = new Kysely<TableRows>({ dialect: scheduledDialect(database) });
    handles.set(database.orm, tables);
  }
  return tables;
}

/** Runs work in a transaction as soon as the request's organization has a slot. */
export const transaction = <T>(
  { orm, schedule }: Pick<Database, 'orm' | 'schedule'>,
  work: (tables: Tables) => Promise<T>,
): Promise<T> => schedule(() => orm.em.fork().transactional((em) => work(em.getKysely<TableRows>())));

/** Runs work in a repeatable-read transaction, so that all of its queries see the same snapshot. */
export const inSnapshot = <T>(
  { orm, schedule }: Pick<Database, 'orm' | 'schedule'>,
  work: (tables: Tables) => Promise<T>,
): Promise<T> =>
  schedule(() =>
    orm.em.fork().transactional((em) => work(em.getKysely<TableRows>()), {
      isolationLevel: IsolationLevel.REPEATABLE_READ,
    }),
  );

/**
 * Returns a compiled query as a statement, for transactions that do not use the query builder's connection.
 * All parameters must be text or null.
 */
export const statementOf = ({ sql, parameters }: CompiledQuery): Statement => ({
  name: '',
  text: sql,
  lane: 'write',
  values: parameters.map((value) => (value === null ? null : String(value))),
});

/** Runs a statement in a transaction. @returns the `id` in the first result row, if any */
export async function runForId(tables: Tables, { text, values }: Statement): Promise<string | undefined> {
  const { rows } = await tables.executeQuery<{ id: string }>(CompiledQuery.raw(text, [...values]));
  return rows[0]?.id;
}

/** A connection whose release also frees its slot. */
interface ScheduledConnection extends DatabaseConnection {
  readonly release: () => void;
}

/** Returns a Kysely dialect that acquires MikroORM's connections when the database schedules them. */
function scheduledDialect({ orm, schedule }: Database): Dialect {
  const acquire = (): Promise<DatabaseConnection> =>
    new Promise((resolve, reject) => {
      const executor = orm.em.fork().getKysely<TableRows>().getExecutor();
      const useConnection = (connection: DatabaseConnection) =>
        new Promise<void>((release) => {
          // Statements run in this async context, because it owns the slot and the caller's context does not.
          const runInContext = AsyncLocalStorage.snapshot();
          const scheduledConnection: ScheduledConnection = {
            executeQuery: (query) => runInContext(() => connection.executeQuery(query)),
            streamQuery: (query, chunkSize) => connection.streamQuery(query, chunkSize),
            cancelQuery: () => Promise.resolve(),
            collectSessionInfo: () => Promise.resolve(),
            killSession: () => Promise.resolve(),
            release,
          };
          resolve(scheduledConnection);
        });
      schedule(() => executor.provideConnection(useConnection)).catch(reject);
    });
  const noTransaction = async () => {
    throw new Error('use transaction() to start a transaction');
  };
  const driver: Driver = {
    init: async () => {},
    acquireConnection: acquire,
    beginTransaction: noTransaction,
    commitTransaction: noTransaction,
    rollbackTransaction: noTransaction,
    releaseConnection: async (connection) => (connection as ScheduledConnection).release(),
    destroy: async () => {},
  };
  return {
    createDriver: () => driver,
    createAdapter: () => new PostgresAdapter(),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createIntrospector: (tables) => new PostgresIntrospector(tables),
  };
}
