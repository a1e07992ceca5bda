import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import type { PgConnection } from './connection.ts';

/** Internals of pg that its types lack. The version of pg is pinned, and the fault tests cover all of them. */
export interface PgInternals {
  host: string;
  port: number;
  ssl: ConnectionOptions | false;
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly connection: PgConnection;
  /** Returns it to its pool, which drops it if told so; undefined if it belongs to none. */
  readonly release?: (drop: boolean) => void;
}

/** The internals of a client that this folder controls. */
export const pgInternals = (client: pg.ClientBase): PgInternals => client as unknown as PgInternals;

/** Cuts a connection without a message to the server; pending statements fail. */
export function disconnect(client: pg.ClientBase): void {
  pgInternals(client).connection.stream.destroy();
}

/**
 * Cancels the statement that a connection waits for, over a separate connection. Until that is closed, the request may hit
 * whatever the connection runs next.
 * @returns resolves when it is closed, after the timeout at the latest
 */
export async function cancelStatement(client: pg.ClientBase, timeoutMs: number): Promise<void> {
  const { host, port, ssl, processID, secretKey } = pgInternals(client);
  const connection = new pg.Connection({ ssl }) as unknown as PgInternals['connection'] & {
    connect: (port: number | string, host?: string) => void;
    requestSsl: () => void;
    cancel: (process: number | null, secret: number | null) => void;
  };
  // A server that cannot be reached runs the statement until its time limit.
  connection.on('error', () => connection.stream.destroy());
  connection.once('connect', () => (ssl === false ? send() : connection.requestSsl()));
  connection.once('sslconnect', send);
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  connection.once('end', resolve);
  const late = setTimeout(() => {
    connection.stream.destroy();
    resolve();
  }, timeoutMs);
  if (host.startsWith('/')) connection.connect(`${host}/.s.PGSQL.${port}`);
  else connection.connect(port, host);
  await closed;
  clearTimeout(late);

  // The server closes it then.
  function send(): void {
    connection.cancel(processID, secretKey);
  }
}
