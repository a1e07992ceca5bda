import { LRUCache } from 'lru-cache';
import type { Pool, PoolClient } from 'pg';
import { queryRecords } from './connection.ts';
import type { Runnable, TextRows } from './database.ts';
import { sqlState } from './failures.ts';

/** Maximum number of named statements per connection. The server keeps a plan for each (about 80 KB for a list). */
export const statementsPerConnection = 128;

/** The part of pg's connection that closes a named statement; pg has no public API for it. */
interface Connection {
  readonly parsedStatements: Record<string, string>;
  readonly close: (statement: { readonly type: 'S'; readonly name: string }) => void;
}

const names = new WeakMap<PoolClient, LRUCache<string, true>>();

/** SQLSTATEs that leave a connection unusable: it ended, the server stopped, or the server became read-only. */
const spoils = /^(?:08|57P|25006|XX)/;

/** Runs a statement on a pooled connection, prepared under its name. Without a name, it is not kept. */
export async function runNamed(pool: Pool, { name, text, values, records }: Runnable): Promise<TextRows> {
  const client = await pool.connect();
  try {
    if (name !== '') keep(client, name);
    const query = { name, text, values: [...values] };
    const rows =
      records === undefined
        ? (await client.query<(string | null)[]>({ ...query, rowMode: 'array' })).rows
        : await queryRecords(client, query, records);
    client.release();
    return rows;
  } catch (cause) {
    const state = sqlState(cause);
    client.release(state === undefined || spoils.test(state));
    throw cause;
  }
}

/** Records the use of a name, and closes the least recently used statement if there are too many. */
function keep(client: PoolClient, name: string): void {
  let kept = names.get(client);
  if (kept === undefined) {
    const { connection } = client as unknown as { readonly connection: Connection };
    kept = new LRUCache({
      max: statementsPerConnection,
      dispose: (_, oldest) => {
        // Sent before the next statement, without a round trip of its own.
        connection.close({ type: 'S', name: oldest });
        delete connection.parsedStatements[oldest];
      },
    });
    names.set(client, kept);
  }
  kept.set(name, true);
}
