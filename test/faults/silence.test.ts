// PostgreSQL, or the way to it, stops responding: every wait is limited, and service comes back by itself.
import assert from 'node:assert/strict';
import { createServer, type Server as TcpServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Pool } from 'pg';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { inSnapshot, type Tables, transaction } from '../../engine/tables/handle.ts';
import type { Answer } from '../support/instance.ts';
import { connected, freePort, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Service, serve, until } from '../support/process.ts';
import { assertErrorShape } from '../support/scenario.ts';

const limits = {
  DATABASE_POOL: '3',
  DATABASE_CONNECT_TIMEOUT_MS: '1500',
  DATABASE_STATEMENT_TIMEOUT_MS: '1000',
};
/** The statement's limit, the grace after it, the wait for a connection, and the machine's own slowness. */
const boundMs = 5_000;

async function timed<T>(work: Promise<T>): Promise<{ result: T; ms: number }> {
  const began = performance.now();
  return { result: await work, ms: performance.now() - began };
}

describe('PostgreSQL falls silent', { concurrency: 1 }, () => {
  let server: Server;
  let environment: Record<string, string>;
  let service: Service;
  let key: string;

  before(async () => {
    server = await startPostgres();
    const { url } = await makeDatabase(server.url);
    environment = { DATABASE_URL: url, LOG_LEVEL: 'fatal', ...limits };
    service = await serve({ ...environment, MIGRATE_ON_START: 'true' });
    key = String(service.printed.key);
  });
  after(async () => {
    await service?.kill();
    await server?.stop();
  });

  const isServed = async () => (await service.call('GET /api/v1/leads', { key })).status === 200;
  async function frozen(work: () => Promise<void>): Promise<void> {
    server.freeze();
    try {
      await work();
    } finally {
      server.thaw();
    }
  }

  test('every request gets a 500 in a bounded time, again and again; service within 5 s of its return', async () => {
    for (let time = 0; time < 2; time++) {
      await Promise.all(Array.from({ length: 6 }, isServed));
      await frozen(async () => {
        for (let round = 0; round < 2; round++) {
          const requests: Promise<Answer>[] = [
            ...Array.from({ length: 8 }, () => service.call('GET /api/v1/leads', { key })),
            service.call('POST /api/v1/leads', { key, body: { last_name: 'silent' } }),
            service.call('POST /auth/login', { body: { email: 'admin@demo.example', password: 'x' } }),
          ];
          const { result, ms } = await timed(Promise.all(requests));
          for (const answer of result) {
            // Those that had no turn get 503.
            const status = answer.json.code === 'overloaded' ? 503 : 500;
            assert.equal(answer.status, status, answer.text);
            assertErrorShape(answer);
            assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
          }
          assert.ok(result.some(({ status }) => status === 500));
          assert.ok(ms < boundMs, `${ms} ms`);
        }
      });
      await until(isServed, 'serve again', 5_000);
      for (let count = 0; count < 10; count++)
        assert.ok(await isServed(), 'no connection is left that fails');
    }
  });

  test('closing the database ends in a bounded time, statements in flight or not', async () => {
    for (const inFlight of [false, true]) {
      const database = await openDatabase(readConfig(environment), []);
      const select = (text: string) => database.run({ name: '', text, values: [] });
      await Promise.all(Array.from({ length: 3 }, () => select('select 1::text')));
      await frozen(async () => {
        // Whether it has a connection already is a matter of chance.
        const lost = inFlight
          ? assert.rejects(
              select('select 2::text'),
              /Connection terminated|timeout exceeded when trying to connect/,
            )
          : undefined;
        const { ms } = await timed(database.close());
        assert.ok(ms < 3_000, `in flight: ${inFlight}, ${ms} ms`);
        await lost;
      });
    }
  });

  test('transactions that lose their connection take none from the pool', async () => {
    const database = await openDatabase(readConfig(environment), []);
    const pool = (await database.orm.em.getConnection().getNativeClient()) as Pool;
    // Before its last statement, as it waits for it, and with the rollback of one that has failed.
    const losses: readonly ((tables: Tables) => Promise<unknown>)[] = [
      async (tables) => {
        const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tables);
        await connected(server.url, (client) =>
          client.query('select pg_terminate_backend($1, 1000)', [rows[0]?.pid]),
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
    // They cannot even begin.
    const starts = [transaction, inSnapshot];
    const one = async (tables: Tables) => (await sql<{ one: number }>`select 1 as one`.execute(tables)).rows;
    try {
      for (let round = 0; round < 2; round++) {
        for (const lose of losses) await assert.rejects(transaction(database, lose).finally(server.thaw));
        for (const start of starts) {
          const all = () => Promise.allSettled(Array.from({ length: 3 }, () => start(database, one)));
          const fine = { status: 'fulfilled', value: [{ one: 1 }] };
          assert.deepEqual(await all(), [fine, fine, fine]);
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
      assert.deepEqual(await transaction(database, one), [{ one: 1 }]);
    } finally {
      await database.close();
    }
  });

  test('a statement that has its time on a slow machine is not cut', async () => {
    const database = await openDatabase(readConfig(environment), []);
    try {
      const select = (text: string) => database.run({ name: '', text, values: [] });
      await select('select 1::text');
      const slow = select('select pg_sleep(0.8)::text');
      // This process is too busy to read the response until well after the limit.
      const freeAt = performance.now() + 2_500;
      const work = () => {
        while (performance.now() < freeAt);
      };
      // From setImmediate, so that timers come before what has arrived.
      setTimeout(() => setImmediate(work), 100);
      assert.deepEqual(await slow, [['']]);
    } finally {
      await database.close();
    }
  });
});

test('a port that accepts and never responds: one line, in time', async () => {
  const port = await freePort();
  const silent = await new Promise<TcpServer>((resolve) => {
    const tcp = createServer((socket) => socket.on('error', () => {})).listen(port, '127.0.0.1', () =>
      resolve(tcp),
    );
  });
  try {
    for (const sslmode of ['disable', 'prefer', 'require']) {
      const url = `postgres://u:p@127.0.0.1:${port}/db?sslmode=${sslmode}`;
      const opened = openDatabase(readConfig({ ...limits, DATABASE_URL: url }), []);
      const { ms } = await timed(
        assert.rejects(opened, {
          name: 'UserError',
          message: `the database at 127.0.0.1:${port}/db does not answer: timeout exceeded when trying to connect`,
        }),
      );
      assert.ok(ms < 3_500, `${ms} ms`);
    }
  } finally {
    silent.close();
  }
});
