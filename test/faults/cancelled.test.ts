// The server cancels a statement that is no longer needed because its client has disconnected, it has timed
// out, or the process is stopping.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import type { Client } from 'pg';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { crmJson, type Environment, rows, type Service, serve, until } from '../support/process.ts';

/** A list that needs its own connection and waits for a lock, as a slow query would. */
const list = '/api/v1/leads?page=6';

interface Sending {
  readonly body?: object;
  /** Default: the service of all tests. */
  readonly to?: Service;
  /** Default: the key that the service printed. */
  readonly by?: string;
  readonly accept?: string;
}

describe('cancelled statements', { concurrency: 1 }, () => {
  let server: Server;
  let url: string;
  let environment: Environment;
  let service: Service;
  let key: string;

  before(async () => {
    server = await startPostgres();
    ({ url } = await makeDatabase(server.url));
    environment = {
      DATABASE_URL: url,
      MIGRATE_ON_START: 'true',
      // Requests reuse the few connections that others have used.
      DATABASE_POOL: '3',
      LOG_LEVEL: 'fatal',
      DATABASE_CONNECT_TIMEOUT_MS: '600000',
      DATABASE_LIST_TIMEOUT_MS: '600000',
      DATABASE_STATEMENT_TIMEOUT_MS: '600000',
      DATABASE_LOCK_TIMEOUT_MS: '600000',
    };
    service = await serve(environment);
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

  /** Locks every lead while the work runs. @param work gets the client that holds the lock */
  const holdingLeads = <T>(work: (client: Client) => Promise<T>, mode = 'access exclusive'): Promise<T> =>
    connected(url, async (client) => {
      await client.query('begin');
      await client.query(`lock table leads in ${mode} mode`);
      try {
        return await work(client);
      } finally {
        await client.query('rollback');
      }
    });

  /** Sends a request whose client can disconnect. */
  function send(
    method: string,
    path: string,
    { body, to = service, by = key, accept = 'application/json' }: Sending = {},
  ) {
    const sent = request(`${to.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${by}`, 'content-type': 'application/json', accept },
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
      const any = ['email', 'phone'].map((field) => ({ field, op: 'eq', value: 'x' }));
      const body = { where: { any }, sort: '-last_name' };
      const querying = send('POST', '/api/v1/leads/query', { body });
      await until(async () => (await waiting()).length === 1, 'the query to wait');
      querying.destroy();
      await until(async () => (await waiting()).length === 0, 'the statement of the query to end');
      // The connection is back in the pool, and its next statement is not cancelled.
      for (let count = 0; count < 20; count++) {
        const { status } = await service.call('GET /api/v1/accounts?page=6', { key });
        assert.equal(status, 200);
      }
    });
  });

  test("does not cancel another client's write on a connection that a disconnected reader has used", async () => {
    const body = { records: [{ last_name: 'concurrent' }] };
    assert.ok((await service.call('POST /api/v1/leads/batch', { key, body })).status < 300);
    // Exceeds the buffers of the reader's connection, so that the export lasts until the reader disconnects.
    await connected(url, (client) =>
      client.query(
        `insert into leads (organization_id, created_at, updated_at, description)
          select organization_id, now(), now(), repeat('y', 20000) from (select organization_id from leads limit 1) _l, generate_series(1, 2000)`,
      ),
    );
    /** Waits until a statement waits for the lock. @returns the process ID of its connection */
    const waitingPid = async (pattern: RegExp, what: string) => {
      let pid: number | undefined;
      await until(async () => {
        pid = (await waiting()).find(({ query }) => pattern.test(query))?.pid;
        return pid !== undefined;
      }, what);
      return pid;
    };
    let reuses = 0;
    await until(async () => {
      const { reader, responded, used } = await holdingLeads(async () => {
        const reader = send('GET', '/api/v1/leads?sort=id', { accept: 'application/x-ndjson' });
        // The response is not read.
        const responded = once(reader, 'response');
        return { reader, responded, used: await waitingPid(/^select/i, 'the export to wait') };
      });
      await responded;
      const { writing, isReused } = await holdingLeads(async () => {
        const writing = service.call('POST /api/v1/leads/batch', { key, body });
        const pid = await waitingPid(/insert into/i, 'the write to wait');
        reader.destroy();
        // The service notices the disconnect during these requests.
        for (let count = 0; count < 20; count++)
          assert.equal((await service.call('GET /api/v1/accounts?page=6', { key })).status, 200);
        return { writing, isReused: pid === used };
      }, 'share');
      const { status, text } = await writing;
      assert.ok(status < 300, text);
      if (isReused) reuses++;
      return reuses === 3;
    }, 'reuse the connection');
  });

  test('completes the write of a disconnected client', async () => {
    const made = await service.call('POST /api/v1/leads', { key, body: { last_name: 'before' } });
    await holdingLeads(async () => {
      const writer = send('PATCH', `/api/v1/leads/${made.json.id}`, { body: { last_name: 'after' } });
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

  test('completes the batch of a disconnected client', async () => {
    const isWaiting = async () => (await waiting()).some(({ query }) => /insert into/i.test(query));
    await holdingLeads(async () => {
      const body = { records: [{ last_name: 'batch of a disconnected client' }] };
      const writer = send('POST', '/api/v1/leads/batch', { body });
      await until(isWaiting, 'the batch to wait');
      writer.destroy();
      // A cancel request would end the statement before or during this request.
      assert.equal((await service.call('GET /api/v1/accounts?page=6', { key })).status, 200);
      assert.ok(await isWaiting());
    });
    const stored = async () => {
      const text = `select from leads where last_name = 'batch of a disconnected client'`;
      return (await connected(url, (client) => client.query(text))).rowCount === 1;
    };
    await until(stored, 'the batch');
  });

  test('completes the lookup of a key for other clients when the first client disconnects', async () => {
    const [[slug] = []] = await rows(environment, 'select slug from crm_organizations');
    const create = ['key', 'create', '--org', String(slug), '--profile', 'administrator'];
    const unused = String((await crmJson(create, environment)).key);
    await holdingLeads(async (client) => {
      const count = async (text: string) =>
        (await waiting()).filter(({ query }) => query.includes(text)).length;
      const [lists, lookups] = [() => count('"leads"'), () => count('"secret_hash"')];
      const reader = send('GET', list);
      await until(async () => (await lists()) === 1, 'the list to wait');
      await client.query('lock table crm_api_keys in access exclusive mode');
      const first = send('GET', list, { by: unused });
      await until(async () => (await lookups()) === 1, 'the lookup to wait');
      const second = service.call('GET /api/v1/accounts', { key: unused });
      // The second request has arrived, too.
      await service.call('GET /docs/openapi.json');
      first.destroy();
      // The list shows when the service has noticed both disconnects.
      reader.destroy();
      await until(async () => (await lists()) === 0, 'the list to end');
      assert.equal(await lookups(), 1);
      await client.query('rollback');
      assert.equal((await second).status, 200);
    });
  });

  for (const workers of [1, 2]) {
    test(`${workers} process(es): cancels running statements on the server on SIGTERM, and exits with 1`, async () => {
      const stopping = workers === 1 ? service : await serve({ ...environment, WORKERS: String(workers) });
      await holdingLeads(async () => {
        send('GET', list, { to: stopping });
        await until(async () => (await waiting()).length === 1, 'the list to wait');
        stopping.signal('SIGTERM');
        const { code } = await stopping.ended;
        assert.equal(code, 1, 'the list was cut off');
        await until(async () => (await waiting()).length === 0, 'the statement to end');
      });
    });
  }
});
