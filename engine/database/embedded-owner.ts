import { connect } from 'node:net';
import { join } from 'node:path';
import type { EntitySchema } from '@mikro-orm/core';
import type { Address } from './address.ts';
import type { Database } from './database.ts';
import { copyCluster } from './folder.ts';
import { socketFolder, socketName, socketPort } from './socket-path.ts';
import type { DatabaseConfig } from './variables.ts';

/** How long a busy server may take to accept a connection, in milliseconds. */
const connectTimeoutMs = 10_000;

/** How often a transaction says something while files are copied, in milliseconds. */
const beatMs = 2000;

/** Whether a server that has the data folder serves its database at a socket. */
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

/** Opens the embedded database that a running server has, through its socket. */
export async function openThroughOwner(
  config: DatabaseConfig,
  entities: readonly EntitySchema[],
): Promise<Database> {
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
  const database = await openPostgres(
    {
      ...config,
      // All connections share one session: nothing can have a name there.
      databasePooler: true,
      replicaAddresses: [],
      // A statement waits for its turn, and cannot be cancelled.
      statementTimeoutMs: 0,
      listTimeoutMs: 0,
      pool: 3,
    },
    address,
    entities,
  );
  return {
    ...database,
    kind: 'embedded',
    isServed: true,
    copyTo: (folder) =>
      database.orm.em.fork().transactional(async (em) => {
        const execute = (sql: string) =>
          em.getConnection().execute(sql, [], 'run', em.getTransactionContext());
        await execute('checkpoint');
        // The server ends a transaction that says nothing for long.
        const beat = setInterval(() => void execute('select').catch(() => {}), beatMs);
        await copyCluster(config.dataFolder, folder).finally(() => clearInterval(beat));
      }),
  };
}
