// PostgreSQL or the network stops responding: every wait is limited, and the service recovers on its own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { sql } from 'kysely';
import type { Pool } from 'pg';
import { readConfig } from '../../app/config.ts';
import type { Database } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { inSnapshot, type Tables, transaction } from '../../engine/tables/handle.ts';
import type { Answer } from '../support/instance.ts';
import { readOutageLog } from '../support/outage-log.ts';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Service, serve, until } from '../support/process.ts';
import { patient, promised, within } from '../support/promised.ts';
import { assertErrorShape } from '../support/scenario.ts';

const limits = {
  DATABASE_POOL: '3',
  DATABASE_CONNECT_TIMEOUT_MS: '1500',
  DATABASE_STATEMENT_TIMEOUT_MS: '1000',
};
/** Sum of the connection timeout, statement timeout and grace period, with a margin, in milliseconds. */
const boundMs = 5_000;

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

/** Arguments of a process that exits when the server has responded to a sleeping statement. */
const responded = [
  '--input-type=module',
  '-e',
  `import pg from ${JSON.stringify(import.meta.resolve('pg'))};
   const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
   await client.connect();
   const responded = "select from pg_stat_activity where state = 'idle' and query like 'select pg_sleep%'";
   while ((await client.query(responded)).rowCount === 0);
   await client.end();`,
];

describe('PostgreSQL stops responding', { concurrency: 1 }, () => {
  let server: Server;
  let environment: Record<string, string>;
  let service: Service;
  let key: string;

  before(async () => {
    server = await startPostgres();
    const { url } = await makeDatabase(server.url);
    environment = { DATABASE_URL: url, LOG_LEVEL: 'warn', LOG_FORMAT: 'json', ...limits };
    service = await serve({ ...environment, MIGRATE_ON_START: 'true' });
    key = String(service.printed.key);
  });
  after(async () => {
    await service?.kill();
    await server?.stop();
  });

  const isServed = async () => (await service.call('GET /api/v1/leads', { key })).status === 200;
  /** Opens the database. A busy machine can take longer to connect than the limits allow, so this is retried. */
  async function open(): Promise<Database> {
    let opened: Database | undefined;
    await until(async () => {
      opened = await openDatabase(readConfig(environment), []).catch(() => undefined);
      return opened !== undefined;
    }, 'open the database');
    return opened ?? assert.fail();
  }
  async function frozen(work: () => Promise<void>): Promise<void> {
    server.freeze();
    try {
      await work();
    } finally {
      server.thaw();
    }
  }

  test('returns 500 to every request while the server is silent, and recovers within 5 s of its return', async () => {
    const start = service.stderr().length;
    const outageLog = () => service.stderr().slice(start);
    for (let time = 0; time < 2; time++) {
      await Promise.all(Array.from({ length: 6 }, isServed));
      await frozen(async () => {
        for (let round = 0; round < 2; round++) {
          const requests: Promise<Answer>[] = [
            ...Array.from({ length: 8 }, () => service.call('GET /api/v1/leads', { key })),
            service.call('POST /api/v1/leads', { key, body: { last_name: 'silent' } }),
            service.call('POST /auth/login', { body: { email: 'admin@demo.example', password: 'x' } }),
          ];
          const result = await within(boundMs, Promise.all(requests));
          for (const answer of result) {
            // Requests that did not get a slot receive 503.
            const status = answer.json.code === 'overloaded' ? 503 : 500;
            assert.equal(answer.status, status, answer.text);
            assertErrorShape(answer);
            assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
          }
          assert.ok(result.some(({ status }) => status === 500));
        }
        // The log contains statements that waited for a connection, and background work.
        await until(async () => {
          const { reasons, messages } = readOutageLog(outageLog());
          const isLogged =
            reasons.includes('no_connection_in_time') &&
            ['inbox', 'events'].every((queue) =>
              messages.includes(`failed to read the queue "${queue}"; will retry`),
            );
          if (!isLogged) await Promise.all(Array.from({ length: 8 }, isServed));
          return isLogged;
        }, 'log the reasons');
      });
      await until(isServed, 'serve again', promised(5_000));
      for (let count = 0; count < 10; count++) {
        const start = performance.now();
        // On a busy machine, a request can exceed the limits. On a broken connection, it fails sooner.
        assert.ok(
          (await isServed()) || performance.now() - start >= Number(limits.DATABASE_STATEMENT_TIMEOUT_MS),
          'no broken connection remains',
        );
      }
    }
    readOutageLog(outageLog());
  });

  test('closes the database while the server is silent, with or without statements in flight', async () => {
    for (const inFlight of [false, true]) {
      const database = await open();
      const select = (text: string) => database.run({ name: '', text, values: [] });
      await until(
        () => succeeds(Promise.all(Array.from({ length: 3 }, () => select('select 1::text')))),
        'open connections',
      );
      await frozen(async () => {
        // The error depends on whether the statement already has a connection.
        const lost = inFlight
          ? assert.rejects(
              select('select 2::text'),
              /Connection terminated|timeout exceeded when trying to connect/,
            )
          : undefined;
        await within(3_000, database.close());
        await lost;
      });
    }
  });

  test('returns connections to the pool after transactions lost them', async () => {
    const database = await open();
    const pool = (await database.orm.em.getConnection().getNativeClient()) as Pool;
    // Connections are lost before the last statement, while waiting for it, and during the rollback of a
    // failed transaction.
    const losses: readonly ((tables: Tables) => Promise<unknown>)[] = [
      async (tables) => {
        const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tables);
        await connected(server.url, (client) =>
          client.query('select pg_terminate_backend($1, 60000)', [rows[0]?.pid]),
        );
        await sql`select 1`.execute(tables);
      },
      async (tables) => {
        await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tables);
      },
      async (tables) => {
        await sql`select 1`.execute(tables);
        server.freeze();
        throw new Error('a mistake');
      },
    ];
    // These cannot even start their transaction.
    const starts = [transaction, inSnapshot];
    const one = async (tables: Tables) => (await sql<{ one: number }>`select 1 as one`.execute(tables)).rows;
    try {
      for (let round = 0; round < 2; round++) {
        for (const lose of losses) await assert.rejects(transaction(database, lose).finally(server.thaw));
        for (const start of starts) {
          const all = () => Promise.allSettled(Array.from({ length: 3 }, () => start(database, one)));
          const areFine = async () => (await all()).every(({ status }) => status === 'fulfilled');
          // A busy machine can take longer to connect than these limits allow, and a leaked connection would
          // never return.
          await until(areFine, 'use every connection of the pool');
          await frozen(async () => {
            const lost = await all();
            assert.deepEqual(
              lost.map(({ status }) => status),
              ['rejected', 'rejected', 'rejected'],
            );
          });
        }
      }
      await until(() => pool.totalCount === pool.idleCount, 'connections to be given back');
      await until(
        async () => isDeepStrictEqual(await transaction(database, one).catch(() => undefined), [{ one: 1 }]),
        'use a connection',
      );
    } finally {
      await database.close();
    }
  });

  test('connects to the second host while the first one is silent, which it then leaves alone', async () => {
    const sockets = new Set<Socket>();
    let accepted = 0;
    const silent = createServer((socket) => {
      sockets.add(socket);
      accepted++;
      socket.on('error', () => {});
      // Without a reader, the end of the connection is not noticed.
      socket.resume().once('close', () => sockets.delete(socket));
    }).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const url = String(environment.DATABASE_URL).replace('@', `@127.0.0.1:${port},`);
    const config = readConfig({
      ...environment,
      DATABASE_URL: url,
      // No attempt ends because of this limit.
      DATABASE_CONNECT_TIMEOUT_MS: '600000',
      DATABASE_STATEMENT_TIMEOUT_MS: '60000',
    });
    const database = await within(30_000, openDatabase(config, []));
    try {
      await until(() => sockets.size === 0, 'the connections to the silent host to close');
      const before = accepted;
      assert.deepEqual(await database.run({ name: '', text: 'select 1::text', values: [] }), [['1']]);
      assert.equal(accepted, before, 'another connection does not try the silent host again');
    } finally {
      await database.close();
      silent.close();
    }
  });

  test('connects to the second host as soon as the first one is gone', async () => {
    const { port: serverPort, hostname } = new URL(String(environment.DATABASE_URL));
    /** Opens the database through a first host that can be stopped. */
    async function throughFirst() {
      const sockets = new Set<Socket>();
      const first = createServer((socket) => {
        const upstream = connect(Number(serverPort), hostname);
        for (const each of [socket, upstream]) {
          sockets.add(each);
          each.on('error', () => {});
        }
        socket.pipe(upstream).pipe(socket);
      }).listen(0, '127.0.0.1');
      await once(first, 'listening');
      const { port } = first.address() as AddressInfo;
      const url = String(environment.DATABASE_URL).replace('@', `@127.0.0.1:${port},`);
      const config = readConfig({ ...environment, ...patient, DATABASE_URL: url });
      const database = await openDatabase(config, []);
      const stop = async () => {
        first.close();
        for (const socket of sockets) socket.destroy();
        await once(first, 'close');
      };
      return {
        database,
        stop,
        select: () => database.run({ name: '', text: 'select 1::text', values: [] }),
      };
    }

    // An open connection is lost, so its host is not tried again.
    const used = await throughFirst();
    try {
      await used.select();
      const pool = (await used.database.orm.em.getConnection().getNativeClient()) as Pool;
      const lost = once(pool, 'remove');
      await used.stop();
      await lost;
      assert.deepEqual(await used.select(), [['1']]);
    } finally {
      await used.database.close();
    }

    // Without an open connection, the first attempt shows that the host is gone.
    const unused = await throughFirst();
    try {
      await unused.stop();
      await until(() => succeeds(unused.select()), 'connect to the second host');
    } finally {
      await unused.database.close();
    }
  });

  test('accepts a response that a busy process reads late', async () => {
    const database = await open();
    let isRead = false;
    try {
      const select = (text: string) => database.run({ name: '', text, values: [] });
      // Only this process limits the statement, because the server might also be late on a busy machine.
      await until(
        () => succeeds(select(`select set_config('statement_timeout', '0', false)`)),
        'lift the limit',
      );
      const slow = select('select pg_sleep(0.8)::text');
      const freeAt = performance.now() + Number(limits.DATABASE_STATEMENT_TIMEOUT_MS) + 1_500;
      // This process is too busy to read the response, which has arrived, until well after the limit.
      const work = () => {
        if (isRead) return;
        execFileSync(process.execPath, responded, { env: { ...process.env, ...environment } });
        while (performance.now() < freeAt);
      };
      // Call it from setImmediate, so that timers run before the received data is read.
      setTimeout(() => setImmediate(work), 100);
      const rows = await slow;
      isRead = true;
      assert.deepEqual(rows, [['']]);
    } finally {
      await database.close();
    }
  });
});

test('reports a port that accepts connections and never responds in one line', async () => {
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  try {
    for (const [parameter, timeout] of [
      ['sslmode=disable', limits.DATABASE_CONNECT_TIMEOUT_MS],
      ['sslmode=prefer', limits.DATABASE_CONNECT_TIMEOUT_MS],
      ['sslmode=require', limits.DATABASE_CONNECT_TIMEOUT_MS],
      ['connect_timeout=1', '600000'],
    ] as const) {
      const url = `postgres://u:p@127.0.0.1:${port}/db?${parameter}`;
      const environment = { ...limits, DATABASE_CONNECT_TIMEOUT_MS: timeout, DATABASE_URL: url };
      const opened = openDatabase(readConfig(environment), []);
      const refused = assert.rejects(opened, {
        name: 'UserError',
        message: `the database at 127.0.0.1:${port}/db does not respond: timeout exceeded when trying to connect`,
      });
      await within(3_500, refused);
    }
  } finally {
    silent.close();
  }
});

test('reports in one line why each of several hosts cannot be used', async () => {
  const hosts = '127.0.0.1:1,127.0.0.1:2';
  const opened = openDatabase(readConfig({ ...limits, DATABASE_URL: `postgres://u:p@${hosts}/db` }), []);
  await assert.rejects(opened, {
    name: 'UserError',
    message: `the database at ${hosts}/db does not respond: Connection terminated: 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1; 127.0.0.1:2: connect ECONNREFUSED 127.0.0.1:2`,
  });
});
