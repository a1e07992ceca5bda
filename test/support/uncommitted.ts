// Requests that wait for another transaction, which commits while they wait. Only for PostgreSQL.
import type { Instance } from './instance.ts';
import { connected } from './postgres.ts';
import { until } from './process.ts';

/**
 * Runs statements in a transaction, and commits it when the request waits for one of its locks.
 * @returns the result of the request
 */
export const whileUncommitted = <T>(
  { config, database }: Pick<Instance, 'config' | 'database'>,
  statements: readonly string[],
  request: () => Promise<T>,
): Promise<T> =>
  connected(String(config.environment.DATABASE_URL), async (client) => {
    await client.query('begin');
    for (const text of statements) await client.query(text);
    const result = request();
    const text = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    await until(
      async () => (await database.run({ name: '', text, values: [] })).length > 0,
      'the request to wait for the transaction',
    );
    await client.query('commit');
    return result;
  });
