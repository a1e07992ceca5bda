import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import type { PgConnection } from './connection.ts';

/**
 * Internals of pg that are missing from its types. The version of pg is pinned, and fault tests cover all of
 * these internals.
 */
export interface PgInternals {
  host: string;
  port: number;
  ssl: ConnectionOptions | false;
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly connection: PgConnection;
  /** Returns the client to its pool, or drops it; undefined if the client does not belong to a pool. */
  readonly release?: (drop: boolean) => void;
}

/** Returns the internals of a client. */
export const pgInternals = (client: pg.ClientBase): PgInternals => client as unknown as PgInternals;

/** Disconnects without notifying the server. Pending statements fail. */
export function disconnect(client: pg.ClientBase): void {
  pgInternals(client).connection.stream.destroy();
}

/**
 * Cancels a connection's statement over a separate connection. Until that connection closes, the request
 * might cancel the next statement instead.
 * @returns a promise that resolves to whether the separate connection has closed; false after the timeout
 */
export async function cancelStatement(client: pg.ClientBase, timeoutMs: number): Promise<boolean> {
  const { host, port, ssl, processID, secretKey } = pgInternals(client);
  const connection = new pg.Connection({ ssl }) as unknown as PgInternals['connection'] & {
    connect: (port: number | string, host?: string) => void;
    requestSsl: () => void;
    cancel: (process: number | null, secret: number | null) => void;
  };
  // If the server is unreachable, the statement runs until its time limit.
  connection.on('error', () => connection.stream.destroy());
  connection.once('connect', () => (ssl === false ? send() : connection.requestSsl()));
  connection.once('sslconnect', send);
  const { promise: closed, resolve } = Promise.withResolvers<boolean>();
  connection.once('end', () => resolve(true));
  const timer = setTimeout(() => {
    resolve(false);
    connection.stream.destroy();
  }, timeoutMs);
  if (host.startsWith('/')) connection.connect(`${host}/.s.PGSQL.${port}`);
  else connection.connect(port, host);
  const isClosed = await closed;
  clearTimeout(timer);
  return isClosed;

  // The server closes the connection after it has processed the request.
  function send(): void {
    connection.cancel(processID, secretKey);
  }
}
