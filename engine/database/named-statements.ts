import { LRUCache } from 'lru-cache';
import type { Pool, PoolClient } from 'pg';
import { queryRecords } from './connection.ts';
import type { Runnable, TextRows } from './database.ts';
import { sqlState } from './failures.ts';

/**
 * Maximum number of named statements per connection. The server keeps a plan for each, about 80 KB for a
 * list.
 */
export const statementsPerConnection = 128;

/** The method of pg's connection that closes a named statement. pg has no public API for it. */
interface Connection {
  readonly parsedStatements: Record<string, string>;
  readonly close: (statement: { readonly type: 'S'; readonly name: string }) => void;
}

const names = new WeakMap<PoolClient, LRUCache<string, true>>();

/**
 * SQLSTATEs after which a connection is unusable: it was lost, the server stopped, or the server became
 * read-only.
 */
const unusableStates = /^(?:08|57P|25006|XX)/;

/** Runs a statement on a pooled connection, prepared under its name. Unnamed statements are not kept. */
export async function runNamed(pool: Pool, { name, text, values, records }: Runnable): Promise<TextRows> {
  const client = await pool.connect();
  try {
    if (name !== '') recordUse(client, name);
    const query = { name, text, values: [...values] };
    const rows =
      records === undefined
        ? (await client.query<(string | null)[]>({ ...query, rowMode: 'array' })).rows
        : await queryRecords(client, query, records);
    client.release();
    return rows;
  } catch (cause) {
    const state = sqlState(cause);
    const isUnusable = state === undefined || unusableStates.test(state);
    // Its plan might be invalid, for example after a change of a column's type. The next run prepares it again.
    if (!isUnusable) names.get(client)?.delete(name);
    client.release(isUnusable);
    throw cause;
  }
}

/** Records the use of a name and closes the least recently used statement if there are too many. */
function recordUse(client: PoolClient, name: string): void {
  let cache = names.get(client);
  if (cache === undefined) {
    const { connection } = client as unknown as { readonly connection: Connection };
    cache = new LRUCache({
      max: statementsPerConnection,
      dispose: (_, evicted) => {
        // The message is sent with the next statement, without an additional round trip.
        connection.close({ type: 'S', name: evicted });
        delete connection.parsedStatements[evicted];
      },
    });
    names.set(client, cache);
  }
  cache.set(name, true);
}
