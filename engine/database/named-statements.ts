import { LRUCache } from 'lru-cache';
import type { Pool, PoolClient } from 'pg';
import { HttpError } from '../errors.ts';
import type { Lane } from '../sql/index.ts';
import { queryRecords } from './connection.ts';
import type { Primary, Runnable, TextRows } from './database.ts';
import { sqlState } from './failures.ts';
import { runTransaction } from './transaction.ts';

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
export async function runNamed(pool: Pool, statement: Runnable): Promise<TextRows> {
  const client = await pool.connect();
  try {
    const rows = await runOn(client, statement);
    client.release();
    return rows;
  } catch (cause) {
    client.release(isUnusableAfter(cause));
    throw cause;
  }
}

/** Returns whether a lane's statements only read. */
const readsIn = (lane: Lane): boolean => lane !== 'write' && lane !== 'batch';

/** Runs a statement on a connection. */
async function runOn(client: PoolClient, { name, text, values, records, lane }: Runnable): Promise<TextRows> {
  try {
    if (name !== '') recordUse(client, name);
    const query = { name, text, values: [...values], onlyReads: lane && readsIn(lane) };
    return records === undefined
      ? (await client.query<(string | null)[]>({ ...query, rowMode: 'array' })).rows
      : await queryRecords(client, query, records);
  } catch (cause) {
    // Its plan might be invalid, for example after a change of a column's type. The next run prepares it again.
    if (!isUnusableAfter(cause)) names.get(client)?.delete(name);
    throw cause;
  }
}

/** Returns whether a connection is unusable after an error. It is usable if the statement was not sent. */
function isUnusableAfter(cause: unknown): boolean {
  if (cause instanceof HttpError) return false;
  const state = sqlState(cause);
  return state === undefined || unusableStates.test(state);
}

/**
 * Returns a function that runs work in a transaction on a pooled connection.
 * @param isNamed whether statements can be prepared under their names
 */
export const transactionOn =
  (pool: Pool, isNamed: boolean): Primary['transaction'] =>
  async (work) => {
    const client = await pool.connect();
    let isUnusable = false;
    const run = async (statement: Runnable) => {
      try {
        return await runOn(client, isNamed ? statement : { ...statement, name: '' });
      } catch (cause) {
        isUnusable ||= isUnusableAfter(cause);
        throw cause;
      }
    };
    try {
      return await runTransaction(run, work);
    } finally {
      client.release(isUnusable);
    }
  };

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
