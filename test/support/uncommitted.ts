// Requests that wait for another transaction. Only for PostgreSQL.
import { sql } from 'kysely';
import type { Client } from 'pg';
import type { Tables } from '../../engine/tables/handle.ts';
import type { Instance } from './instance.ts';
import { connected } from './postgres.ts';
import { until } from './process.ts';

/** Lets a transaction of the service be idle for as long as a busy machine needs. By default, PostgreSQL ends it after 10 s. */
export const mayBeIdle = (tables: Tables): Promise<unknown> =>
  sql`set local idle_in_transaction_session_timeout = 0`.execute(tables);

/**
 * Waits until statements in the database of a client wait for locks. The client can be in a transaction.
 * @param count minimum number of these statements
 */
export const untilWaiting = (client: Client, what: string, count = 1): Promise<void> =>
  until(async () => {
    // Statistics do not change within a transaction.
    await client.query('select pg_stat_clear_snapshot()');
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return (await client.query(waiting)).rows.length >= count;
  }, what);

/**
 * Runs statements in a transaction, and commits it when the request waits for one of its locks.
 * @param count minimum number of the request's statements that wait
 * @returns the result of the request
 */
export const whileUncommitted = <T>(
  { config }: Pick<Instance, 'config'>,
  statements: readonly string[],
  request: () => Promise<T>,
  count = 1,
): Promise<T> =>
  connected(String(config.environment.DATABASE_URL), async (client) => {
    await client.query('begin');
    for (const text of statements) await client.query(text);
    const result = request();
    await untilWaiting(client, 'the request to wait for the transaction', count);
    await client.query('commit');
    return result;
  });
