// The server cancels a statement that is no longer needed because its client has disconnected, it has timed
// out, or the process is stopping.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { type Service, serve, until } from '../support/process.ts';

/** A list that needs its own connection and waits for a lock, as a slow query would. */
const list = '/api/v1/leads?page=6';

describe('cancelled statements', { concurrency: 1 }, () => {
  let server: Server;
  let url: string;
  let service: Service;
  let key: string;

  before(async () => {
    server = await startPostgres();
    ({ url } = await makeDatabase(server.url));
    service = await serve({
      DATABASE_URL: url,
      MIGRATE_ON_START: 'true',
      LOG_LEVEL: 'fatal',
      DATABASE_CONNECT_TIMEOUT_MS: '600000',
      DATABASE_LIST_TIMEOUT_MS: '600000',
      DATABASE_STATEMENT_TIMEOUT_MS: '600000',
      DATABASE_LOCK_TIMEOUT_MS: '600000',
    });
    key = String(service.printed.key);
  });
  after(async () => {
    await service?.kill();
    await server?.stop();
  });

  /** Returns the statements on leads that are waiting for the lock. */
  const waiting = () =>
    connected(url, async (client) => {
      const { rows } = await client.query<{ pid: number; query: string }>(
        `select pid, query from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
      );
      return rows;
    });

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

  /** Sends a request whose client can disconnect. */
  function send(method: string, path: string, body?: object) {
    const sent = request(`${service.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    });
    sent.on('error', () => {});
    sent.end(body && JSON.stringify(body));
    return sent;
  }

  test('cancels the statement of a disconnected reader and reuses the connection', async () => {
    await holdingLeads(async () => {
      const reader = send('GET', list);
      await until(async () => (await waiting()).length === 1, 'the list to wait');
      reader.destroy();
      await until(async () => (await waiting()).length === 0, 'the statement to end');
      // The connection is back in the pool, and its next statement is not cancelled.
      for (let count = 0; count < 20; count++) {
        const { status } = await service.call('GET /api/v1/accounts?page=6', { key });
        assert.equal(status, 200);
      }
    });
  });

  test('completes the write of a disconnected client', async () => {
    const made = await service.call('POST /api/v1/leads', { key, body: { last_name: 'before' } });
    await holdingLeads(async () => {
      const writer = send('PATCH', `/api/v1/leads/${made.json.id}`, { last_name: 'after' });
      await until(
        async () => (await waiting()).some(({ query }) => /update/i.test(query)),
        'the write to wait',
      );
      writer.destroy();
      const other = await service.call('GET /api/v1/accounts?page=6', { key });
      assert.equal(other.status, 200);
    });
    const stored = async () =>
      (await service.call(`GET /api/v1/leads/${made.json.id}`, { key })).json.last_name === 'after';
    await until(stored, 'the write');
  });

  test('cancels running statements on the server on SIGTERM', async () => {
    await holdingLeads(async () => {
      send('GET', list);
      await until(async () => (await waiting()).length === 1, 'the list to wait');
      service.signal('SIGTERM');
      await service.ended;
      await until(async () => (await waiting()).length === 0, 'the statement to end');
    });
  });
});
