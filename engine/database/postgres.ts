import type { EntitySchema } from '@mikro-orm/core';
import { PostgreSqlDriver, MikroORM as PostgresOrm, type SqlEntityManager } from '@mikro-orm/postgresql';
import pg, { type Pool, type TypeOverrides } from 'pg';
import type { Lane } from '../sql/index.ts';
import type { Address } from './address.ts';
import { admission } from './admission.ts';
import { connections, postgresBounds, shareOf } from './bounds.ts';
import { guardedClients } from './client.ts';
import type { Database } from './database.ts';
import { runNamed } from './named.ts';
import { ormOptions } from './orm.ts';
import { pipelines } from './pipelines.ts';
import { findServer } from './server.ts';
import { keepStatistics } from './statistics.ts';
import { parsers } from './types.ts';
import type { DatabaseConfig } from './variables.ts';

/** How long connections in use may take at shutdown, and again how long closing them may take, in milliseconds. */
const closeMs = 1000;

/** The lanes of the pool for lists. */
const listLanes: readonly Lane[] = ['list', 'deep', 'scan'];

/** The time limits of a statement that shares its connection, and of its waits for locks, in milliseconds. */
const [shortMs, shortLockMs] = [250, 50];
/** How long the server may take, beyond that limit, to say that it has ended a statement, in milliseconds. */
const graceMs = 500;

/**
 * Opens two pools of connections to PostgreSQL: one for lists, with a shorter statement limit, and one for the rest.
 * Two further connections are shared by statements that are known to be short.
 * @throws UserError in one line when it does not respond
 */
export async function openPostgres(
  config: DatabaseConfig,
  address: Address,
  entities: readonly EntitySchema[],
): Promise<Database> {
  const { statementTimeoutMs, listTimeoutMs } = config;
  const { target } = address;
  const max = connections(shareOf(config.pool, config));
  const { route, pooled, login } = await findServer(
    config,
    address,
    address.connectTimeoutMs ?? config.connectTimeoutMs,
  );
  // Found out by a write; the connections that only read must go to the new server too.
  const becameReadOnly = () => short?.renew();
  const clients = (limitMs: number) =>
    guardedClients({ route, target, statementTimeoutMs: limitMs, cancels: pooled, becameReadOnly });
  const recordClients = clients(statementTimeoutMs);
  const orm = await PostgresOrm.init<PostgreSqlDriver, SqlEntityManager<PostgreSqlDriver>>({
    ...ormOptions(entities, config),
    driver: PostgreSqlDriver,
    dbName: address.database ?? address.user ?? 'postgres',
    // A mistyped name must be reported, not created.
    ensureDatabase: false,
    pool: { max: max.records, idleTimeoutMillis: 30_000 },
    driverOptions: { ...login(statementTimeoutMs), Client: recordClients.Client },
  });
  const records: Pool = await orm.em.getConnection().getNativeClient();
  const types = records.options.types as TypeOverrides;
  for (const [oid, parse] of Object.entries(parsers)) types.setTypeParser(Number(oid), parse);
  const listLimitMs = Math.min(listTimeoutMs, statementTimeoutMs || listTimeoutMs);
  const listClients = clients(listLimitMs);
  const lists = new pg.Pool({
    ...records.options,
    ...login(listLimitMs),
    Client: listClients.Client,
    max: max.lists,
  });
  // A connection that breaks while idle is replaced when it is next needed.
  lists.on('error', () => {});
  // A statement that takes longer goes on in a pool, where others do not wait for it.
  const shortLimitMs = Math.min(shortMs, listLimitMs);
  const shortClients = clients(shortLimitMs);
  const openShort = async () => {
    const client = new shortClients.Client({ ...records.options, ...login(shortLimitMs, shortLockMs) });
    await client.connect();
    return client;
  };
  // A pooler runs each statement on any of its connections, so none can be kept under a name there.
  const short = pooled ? undefined : pipelines(openShort, shortLimitMs + graceMs);
  const stopStatistics = keepStatistics((text) => runNamed(records, { name: '', text, values: [] }));
  return {
    kind: 'postgresql',
    orm,
    admission: admission(postgresBounds(config)),
    run: (statement) =>
      runNamed(
        statement.lane !== undefined && listLanes.includes(statement.lane) ? lists : records,
        // A pooler runs each statement on any of its connections, so none has a name there.
        pooled ? { ...statement, name: '' } : statement,
      ),
    pipelines: short,
    close: async () => {
      short?.close();
      const closed = Promise.all([stopStatistics(), lists.end(), orm.close(true)]);
      if (await within(closeMs, closed)) return;
      recordClients.cutAll();
      listClients.cutAll();
      shortClients.cutAll();
      await within(closeMs, closed);
    },
  };
}

/** Waits for work for a limited time. @returns whether it is done */
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
