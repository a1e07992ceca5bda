import type { EntitySchema } from '@mikro-orm/core';
import { PostgreSqlDriver, MikroORM as PostgresOrm, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { Pool, TypeOverrides } from 'pg';
import type { Lane } from '../sql/index.ts';
import type { Address } from './address.ts';
import { admitted, createAdmission } from './admission.ts';
import { createClientPool } from './client-pool.ts';
import type { Database, Runnable } from './database.ts';
import { connections, postgresLimits, processShare } from './limits.ts';
import { runNamed } from './named-statements.ts';
import { ormOptions } from './orm.ts';
import { sharePools } from './pool-sharing.ts';
import { openReadPool, poolLoad } from './read-pool.ts';
import { openReplicas } from './replicas.ts';
import { analyzeAfterWrites } from './statistics.ts';
import { parsers } from './types.ts';
import { findServer } from './usable-server.ts';
import type { DatabaseConfig } from './variables.ts';
import { createWriteBatcher } from './write-batcher.ts';

/**
 * Time that busy connections have at shutdown, and that cancelling their statements has afterwards, in milliseconds. Together
 * they are shorter than the process waits.
 */
const closeMs = 400;

/** Lanes that use the pool for lists. */
const listLanes: readonly Lane[] = ['list', 'deep', 'scan'];

/** Time limits of a write batch and of its waits for locks, in milliseconds. Its commit has no limit, like any commit. */
const [groupMs, groupLockMs] = [1000, 50];
/** Additional time that the server has to report that it ended a write, in milliseconds. */
const graceMs = 1000;

/**
 * Opens two pools of connections to PostgreSQL: one for lists, with a shorter statement limit, and one for the rest.
 * Two additional connections are pipelined for statements known to be short.
 * @throws UserError with one line if the server does not respond
 */
export async function openPostgres(
  config: DatabaseConfig,
  address: Address,
  entities: readonly EntitySchema[],
): Promise<Database> {
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
      // Detected by a write. All other connections must switch to the new server too.
      becameReadOnly: () => {
        reading.pipelines?.renew();
        grouped?.renew();
      },
    });
  const recordClients = clients(statementTimeoutMs);
  const orm = await PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...ormOptions(entities, config),
    driver: PostgreSqlDriver,
    dbName: address.database ?? address.user ?? 'postgres',
    // A mistyped database name must be reported instead of created.
    ensureDatabase: false,
    pool: { max: max.records, idleTimeoutMillis: 30_000 },
    driverOptions: { ...login(statementTimeoutMs), Client: recordClients.Client },
  });
  const records: Pool = await orm.em.getConnection().getNativeClient();
  const types = records.options.types as TypeOverrides;
  for (const [oid, parse] of Object.entries(parsers)) types.setTypeParser(Number(oid), parse);
  const reading = openReadPool(config, server, target, records.options);
  const { pipelines } = reading;
  const replicas =
    config.replicaAddresses.length === 0
      ? undefined
      : openReplicas(config, config.replicaAddresses, reading, records.options);
  const groupLimitMs = Math.min(groupMs, statementTimeoutMs || groupMs);
  const groupClients = clients(groupLimitMs);
  const openGroup = async () => {
    const client = new groupClients.Client({ ...records.options, ...login(groupLimitMs, groupLockMs) });
    await client.connect();
    return client;
  };
  // A pooler runs each statement on any of its connections, so statements must be unnamed.
  const grouped = pooled
    ? undefined
    : createWriteBatcher(openGroup, (statementTimeoutMs || groupMs) + graceMs);
  sharePools({
    records,
    lists: reading.pool,
    besides: [pipelines, grouped],
    timeoutMs: config.connectTimeoutMs,
  });
  const stopStatistics = analyzeAfterWrites((text) => runNamed(records, { name: '', text, values: [] }));
  const closePool = async () => {
    await orm.close(true);
    // MikroORM closes it only if it has run a query; idle connections would keep the process alive for 30 s.
    if (!records.ending) await records.end();
  };
  const slots = createAdmission(postgresLimits(config));
  const run = (statement: Runnable) =>
    statement.lane !== undefined && listLanes.includes(statement.lane)
      ? reading.run(statement)
      : // A pooler runs each statement on any of its connections, so none has a name there.
        runNamed(records, pooled ? { ...statement, name: '' } : statement);
  return {
    kind: 'postgresql',
    orm,
    admission: slots,
    run: (statement) => admitted(slots, () => run(statement)),
    pipelines,
    groups: grouped,
    connections: () => [
      poolLoad('records', records),
      reading.load(),
      ...[pipelines, grouped].flatMap((each) => each?.load() ?? []),
    ],
    replicas,
    close: async () => {
      grouped?.close();
      const closed = Promise.all([replicas?.close(), stopStatistics(), reading.close(), closePool()]);
      if (await within(closeMs, closed)) return;
      const cut = Promise.all([recordClients.cutAll(), reading.cutAll(), groupClients.cutAll()]);
      await within(closeMs, Promise.all([cut, closed]));
    },
  };
}

/** Waits for work for a limited time. @returns whether it finished */
async function within(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, limitMs, false);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}
