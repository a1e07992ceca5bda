import { connect } from 'node:net';
import { join } from 'node:path';
import type { EntitySchema } from '@mikro-orm/core';
import type { Address } from './address.ts';
import type { Servers } from './database.ts';
import { copyCluster } from './folder.ts';
import { socketFolder, socketName, socketPort } from './socket-path.ts';
import type { DatabaseConfig } from './variables.ts';

/** Time allowed for a busy server to accept a connection, in milliseconds. */
const connectTimeoutMs = 10_000;

/** Interval between statements that keep a transaction alive while files are copied, in milliseconds. */
const keepAliveMs = 2000;

/** Returns whether a running server owns the data folder and serves its database on a socket. */
export function hasRunningOwner({ dataFolder }: Pick<DatabaseConfig, 'dataFolder'>): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(join(socketFolder(dataFolder), socketName));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** Opens the embedded database through the socket of the server that owns it. */
export async function openThroughOwner(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<Servers> {
  const { openPostgres } = await import('./postgres.ts');
  const address: Address = {
    hosts: [{ host: socketFolder(config.dataFolder), port: socketPort, encryption: [false] }],
    user: 'postgres',
    password: undefined,
    database: 'postgres',
    applicationName: undefined,
    options: undefined,
    connectTimeoutMs,
    target: 'any',
  };
  const servers = await openPostgres(
    {
      ...config,
      // All connections share one session, so statements must be unnamed.
      databasePooler: true,
      replicaAddresses: [],
      // Statements wait for the session and cannot be cancelled, so they have no time limit.
      statementTimeoutMs: 0,
      listTimeoutMs: 0,
      pool: 3,
    },
    address,
    entities,
  );
  return {
    ...servers,
    kind: 'embedded',
    isServed: true,
    copyTo: (folder) =>
      servers.orm.em.fork().transactional(async (em) => {
        const execute = (sql: string) =>
          em.getConnection().execute(sql, [], 'run', em.getTransactionContext());
        await execute('checkpoint');
        // The server terminates transactions that are idle for too long.
        const keepAlive = setInterval(() => void execute('select').catch(() => {}), keepAliveMs);
        await copyCluster(config.dataFolder, folder).finally(() => clearInterval(keepAlive));
      }),
  };
}
