// How a running service behaves when PostgreSQL is down or slow. test/faults/starving.test.ts covers a
// server without free connections.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Answer } from '../support/instance.ts';
import { readOutageLog } from '../support/outage-log.ts';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Service, serve, until } from '../support/process.ts';
import { isMeasured, promised, within } from '../support/promised.ts';
import { assertErrorShape } from '../support/scenario.ts';

const limits = {
  DATABASE_POOL: '2',
  // No request waits for this limit, because a stopped server refuses connections. A busy one accepts them late.
  DATABASE_CONNECT_TIMEOUT_MS: isMeasured ? '700' : '60000',
  DATABASE_STATEMENT_TIMEOUT_MS: '1500',
} as const;
/** Longer than all time limits combined, but shorter than a client's timeout. */
const boundMs = 6_000;

const logging = { LOG_LEVEL: 'warn', LOG_FORMAT: 'json' } as const;

describe('PostgreSQL fails while a service runs', { concurrency: 1 }, () => {
  let server: Server;
  let url: string;
  let service: Service;
  let key: string;
  let lead: string;

  before(async () => {
    server = await startPostgres();
    ({ url } = await makeDatabase(server.url));
    service = await serve({ DATABASE_URL: url, MIGRATE_ON_START: 'true', ...logging, ...limits });
    key = String(service.printed.key);
    await until(async () => {
      const made = await service.call('POST /api/v1/leads', { key, body: { last_name: 'before' } });
      lead = String(made.json.id);
      return made.status === 201;
    }, 'a lead');
  });
  after(async () => {
    await service?.kill();
    await server?.stop();
  });

  /** Returns one request of each kind. */
  const requests = () => [
    service.call('GET /api/v1/leads', { key }),
    service.call(`GET /api/v1/leads/${lead}`, { key }),
    service.call('POST /api/v1/leads', { key, body: { last_name: 'concurrent' } }),
    service.call(`PUT /api/v1/leads/${lead}`, { key, body: { last_name: 'concurrent' } }),
    service.call(`DELETE /api/v1/leads/${lead}`, { key }),
  ];
  const status = async () => (await service.call('GET /api/v1/leads', { key })).status;
  const isServed = async () => (await status()) === 200;

  /** Asserts that a response is a 500 that suggests a retry and does not reveal internals. */
  function assertFailed(answer: Answer): void {
    assert.equal(answer.status, 500, answer.text);
    assertErrorShape(answer);
    assert.equal(answer.json.error, 'The database did not respond as expected');
    assert.match(String(answer.json.request_id), /./);
    assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
    assert.doesNotMatch(answer.text, /ECONN|postgres|127\.0\.0\.1|timeout|timed out|terminat/i);
  }

  /** Waits for work that is ended by time limits while the database stays in this state. */
  const bounded = <T>(work: Promise<T>): Promise<T> => within(boundMs, work);

  /** Locks every lead while the work runs. */
  const holdingLeads = <T>(work: () => Promise<T>): Promise<T> =>
    connected(url, async (client) => {
      await client.query('begin');
      await client.query('lock table leads in access exclusive mode');
      try {
        return await work();
      } finally {
        await client.query('rollback');
      }
    });

  test('returns 500 while PostgreSQL is stopped and recovers by itself after its start', async () => {
    const start = service.stderr().length;
    for (let time = 0; time < 2; time++) {
      await server.pause();
      // Test immediately, and once more when the pool has noticed that its connections are closed.
      for (let round = 0; round < 2; round++) {
        for (const answer of await bounded(Promise.all(requests()))) assertFailed(answer);
      }
      const body = { email: 'admin@demo.example', password: 'x' };
      const login = await bounded(service.call('POST /auth/login', { body }));
      assertFailed(login);
      assert.equal(
        (await service.call('GET /docs/openapi.json')).status,
        200,
        'requests that need no database',
      );
      await server.resume();
      await until(isServed, 'serve again', promised(boundMs));
      let kept: Answer | undefined;
      await until(async () => {
        kept = await service.call(`GET /api/v1/leads/${lead}`, { key });
        // On a busy machine, a statement can be too slow.
        return kept.json.code !== 'too_slow';
      }, 'the lead');
      assert.deepEqual([kept?.status, kept?.json.last_name], [200, 'before'], 'no partial writes');
    }
    // The log can arrive after the responses.
    await until(
      () => readOutageLog(service.stderr().slice(start)).reasons.includes('ECONNREFUSED'),
      'log the reason',
    );
  });

  test('fails at most the requests in flight when the server closes connections', async () => {
    await Promise.all(Array.from({ length: 4 }, isServed));
    await connected(server.url, (client) =>
      client.query('select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = $1', [
        new URL(url).pathname.slice(1),
      ]),
    );
    await until(isServed, 'serve again', promised(boundMs));
    // On a busy machine, a list can be too slow, which is a 503.
    for (let count = 0; count < 10; count++) assert.notEqual(await status(), 500);
  });

  test('cancels a statement waiting for a lock after DATABASE_STATEMENT_TIMEOUT_MS', async () => {
    await until(isServed, 'serve');
    await holdingLeads(async () => {
      let took = 0;
      let answer: Answer | undefined;
      // A busy server can be so late itself that the request fails with 500.
      await until(async () => {
        const began = performance.now();
        answer = await bounded(service.call('GET /api/v1/leads', { key }));
        took = performance.now() - began;
        return answer.json.code === 'too_slow';
      }, 'be too slow');
      assert.equal(answer?.status, 503);
      assert.match(answer?.headers.get('retry-after') ?? '', /^\d+$/);
      assert.ok(took >= Number(limits.DATABASE_STATEMENT_TIMEOUT_MS) - 100, `${took} ms`);
      // The server cancels it too, because the lock is held until then.
      await until(async () => {
        const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return (await connected(url, (client) => client.query(waiting))).rowCount === 0;
      }, 'no statement to wait');
      await until(
        async () => (await service.call('GET /api/v1/accounts', { key })).status === 200,
        'serve requests for unlocked records',
      );
    });
    await until(isServed, 'serve again');
  });
});
