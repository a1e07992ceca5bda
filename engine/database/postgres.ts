import type { EntitySchema } from '@mikro-orm/core';
import { PostgreSqlDriver, MikroORM as PostgresOrm, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { Pool, TypeOverrides } from 'pg';
import type { Lane } from '../sql/index.ts';
import type { Address } from './address.ts';
import { createClientPool } from './client-pool.ts';
import type { Runnable, Servers } from './database.ts';
import { connections, postgresLimits, processShare } from './limits.ts';
import { runNamed, transactionOn } from './named-statements.ts';
import { ormOptions } from './orm.ts';
import { sharePools } from './pool-sharing.ts';
import { openReadPool, poolLoad } from './read-pool.ts';
import { openReplicas } from './replicas.ts';
import { analyzeAfterWrites } from './statistics.ts';
import { TimeoutError, withTimeout } from './timeout.ts';
import { parsers } from './types.ts';
import { findServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';
import { createWriteBatcher } from './write-batcher.ts';

/**
 * Time allowed for busy connections to finish at shutdown, and then for their statements to be cancelled, in
 * milliseconds. The sum is shorter than the process's shutdown timeout.
 */
const closeMs = 400;

/** Lanes that use the pool for lists. */
const listLanes: readonly Lane[] = ['list', 'deep', 'scan', 'aggregate'];

/** Time limits for a write batch and for its lock waits, in milliseconds. Commits are not limited. */
const [batchMs, batchLockMs] = [1000, 50];
/** Additional time allowed for the server to report that it cancelled a write, in milliseconds. */
const graceMs = 1000;

/**
 * Opens two pools of connections to PostgreSQL: one for lists, with a shorter statement timeout, and one for
 * other statements. Additional connections are pipelined for short statements and write batches.
 * @throws UserError with a one-line message if the server does not respond
 */
export async function openPostgres(
  config: DatabaseConfig,
  address: Address,
  entities: readonly EntitySchema[],
): Promise<Servers> {
  const { statementTimeoutMs } = config;
  const { target } = address;
  const max = connections(processShare(config.pool, config));
  const server = await findServer(config, address, address.connectTimeoutMs ?? config.connectTimeoutMs);
  const { route, pooled, login } = server;
  const clients = (limitMs: number) =>
    createClientPool({
      route,
      target,
      statementTimeoutMs: limitMs,
      cancels: pooled,
      // A write detected that the server is read-only. Other connections must also switch to the new server.
      becameReadOnly: () => {
        readPool.pipelines?.renew();
        writeBatcher?.renew();
      },
    });
  const recordClients = clients(statementTimeoutMs);
  const orm = await PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...ormOptions(entities, config),
    driver: PostgreSqlDriver,
    dbName: address.database ?? address.user ?? 'postgres',
    // A mistyped database name must be reported rather than created.
    ensureDatabase: false,
    pool: { max: max.records, idleTimeoutMillis: 30_000 },
    driverOptions: { ...login(statementTimeoutMs), Client: recordClients.Client },
  });
  const records: Pool = await orm.em.getConnection().getNativeClient();
  const types = records.options.types as TypeOverrides;
  for (const [oid, parse] of Object.entries(parsers)) types.setTypeParser(Number(oid), parse);
  const readPool = openReadPool(config, server, target, records.options);
  const { pipelines } = readPool;
  const replicas =
    config.replicaAddresses.length === 0
      ? undefined
      : openReplicas(config, config.replicaAddresses, readPool, records.options);
  const batchLimitMs = Math.min(batchMs, statementTimeoutMs || batchMs);
  const batchClients = clients(batchLimitMs);
  const openBatchClient = async () => {
    const client = new batchClients.Client({ ...records.options, ...login(batchLimitMs, batchLockMs) });
    await client.connect();
    return client;
  };
  // A pooler runs each statement on any of its connections, so statements must be unnamed.
  const writeBatcher = pooled
    ? undefined
    : createWriteBatcher(openBatchClient, (statementTimeoutMs || batchMs) + graceMs);
  sharePools({
    records,
    lists: readPool.pool,
    otherConnections: [pipelines, writeBatcher],
    timeoutMs: config.connectTimeoutMs,
  });
  const stopStatistics = analyzeAfterWrites((text) => runNamed(records, { name: '', text, values: [] }));
  const closePool = async () => {
    await orm.close(true);
    // MikroORM closes the pool only if it has run a query. Idle connections would keep the process alive for
    // 30 s.
    if (!records.ending) await records.end();
  };
  const run = (statement: Runnable) =>
    statement.lane !== undefined && listLanes.includes(statement.lane)
      ? readPool.run(statement)
      : // A pooler runs each statement on any of its connections, so statements must be unnamed.
        runNamed(records, pooled ? { ...statement, name: '' } : statement);
  return {
    kind: 'postgresql',
    orm,
    limits: postgresLimits(config),
    primary: { run, pipelines, transaction: transactionOn(records, !pooled) },
    writeBatcher,
    connections: () => [
      poolLoad('records', records),
      readPool.load(),
      ...[pipelines, writeBatcher].flatMap((connections) => connections?.load() ?? []),
    ],
    replicas,
    close: async () => {
      writeBatcher?.close();
      const closing = Promise.all([replicas?.close(), stopStatistics(), readPool.close(), closePool()]);
      if (await within(closeMs, closing)) return;
      const cancelling = Promise.all([
        recordClients.cancelAll(),
        readPool.cancelAll(),
        batchClients.cancelAll(),
      ]);
      await within(closeMs, Promise.all([cancelling, closing]));
    },
  };
}

/** Waits a limited time for work to finish. @returns whether it finished */
const within = (limitMs: number, work: Promise<unknown>): Promise<boolean> =>
  withTimeout(limitMs, work).then(
    () => true,
    (cause: unknown) => {
      if (cause instanceof TimeoutError) return false;
      throw cause;
    },
  );
