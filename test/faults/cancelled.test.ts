// The server cancels a statement that is no longer needed because its client has disconnected, it has timed
// out, or the process is stopping.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import type { Client } from 'pg';
import { signIn } from '../support/forms.ts';
import { connected, makeDatabase, type Server, startPostgres } from '../support/postgres.ts';
import { crmJson, type Environment, rows, type Service, serve, until } from '../support/process.ts';

/** A list that needs its own connection and waits for a lock, as a slow query would. */
const list = '/api/v1/leads?page=6';

const query = {
  where: { any: ['email', 'phone'].map((field) => ({ field, op: 'eq', value: 'x' })) },
  sort: '-last_name',
};
const organizationExport = 'GET /setup/organizations/:org/export';

/** Requests that only read, each with the table whose lock its statement waits for. Default: `leads`. */
const readers: readonly (readonly [name: string, request: string, options?: ReaderOptions])[] = [
  ['a list', `GET ${list}`],
  ['a query', 'POST /api/v1/leads/query', { body: query }],
  ['a query with the method QUERY', 'QUERY /api/v1/leads', { body: query }],
  ['a count', 'GET /api/v1/leads?page=6', { prefer: 'count=exact' }],
  ['an aggregate', 'GET /api/v1/leads/aggregate?group_by=status'],
  ['a history', 'GET /api/v1/leads/:id/history', { locked: 'crm_ledger' }],
  ['the change feed', 'GET /events', { locked: 'crm_ledger' }],
  ['a CSV export', 'GET /api/v1/leads', { accept: 'text/csv' }],
  ['an NDJSON export', 'GET /api/v1/leads', { accept: 'application/x-ndjson' }],
  ['a page with a list', 'GET /setup/o/:org/data/leads?page=6'],
  ['a page with a board', 'GET /setup/o/:org/data/leads/board'],
  ['a page with a record', 'GET /setup/o/:org/data/leads/:id'],
  ["a page with a record's history", 'GET /setup/o/:org/data/leads/:id', { locked: 'crm_ledger' }],
  ['a page with search results', 'GET /setup/o/:org/search?q=ames'],
  ['the activity page', 'GET /setup/o/:org/activity', { locked: 'crm_ledger' }],
  ['a page with teams', 'GET /setup/o/:org/teams', { locked: 'crm_teams' }],
  ['a CSV export of a page', 'GET /setup/o/:org/data/leads/export'],
  ['a CSV export of the activity', 'GET /setup/o/:org/activity/export', { locked: 'crm_ledger' }],
  ["an export of an organization's teams", organizationExport, { locked: 'crm_teams' }],
  ["an export of an organization's records", organizationExport],
  ["an export of an organization's notes", organizationExport, { locked: 'crm_notes' }],
];

interface ReaderOptions extends Pick<Sending, 'body' | 'accept' | 'prefer'> {
  readonly locked?: string;
}

interface Sending {
  readonly body?: object;
  readonly prefer?: string;
  /** Default: the service of all tests. */
  readonly to?: Service;
  /** Default: the key that the service printed. */
  readonly by?: string;
  readonly accept?: string;
  /** Sent instead of the key. */
  readonly cookie?: string;
}

describe('cancelled statements', { concurrency: 1 }, () => {
  let server: Server;
  let url: string;
  let environment: Environment;
  let service: Service;
  let key: string;

  before(async () => {
    // The fan-out's statement is recognized by its end.
    server = await startPostgres({ track_activity_query_size: '16384' });
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

  /** Returns the requests' statements that are waiting for the lock. The fan-out of events also reads the change log. */
  const waiting = () =>
    connected(url, async (client) => {
      const { rows } = await client.query<{ pid: number; query: string }>(
        `select pid, query from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()
          and query not like '%crm_event_subscriptions%'`,
      );
      return rows;
    });

  /** Locks a table while the work runs. @param work gets the client that holds the lock */
  const holding = <T>(
    table: string,
    work: (client: Client) => Promise<T>,
    mode = 'access exclusive',
  ): Promise<T> =>
    connected(url, async (client) => {
      await client.query('begin');
      await client.query(`lock table ${table} in ${mode} mode`);
      try {
        return await work(client);
      } finally {
        await client.query('rollback');
      }
    });
  const holdingLeads = <T>(work: (client: Client) => Promise<T>, mode?: string): Promise<T> =>
    holding('leads', work, mode);

  /** Sends a request whose client can disconnect. */
  function send(
    method: string,
    path: string,
    { body, to = service, by = key, accept = 'application/json', prefer = '', cookie }: Sending = {},
  ) {
    const sent = request(`${to.url}${path}`, {
      method,
      headers: {
        ...(cookie === undefined ? { authorization: `Bearer ${by}` } : { cookie }),
        'content-type': 'application/json',
        accept,
        prefer,
      },
    });
    sent.on('error', () => {});
    sent.end(body && JSON.stringify(body));
    return sent;
  }

  describe('cancels the statements of a disconnected reader', () => {
    let organization: string;
    let id: string;
    let cookie: string;
    before(async () => {
      [[organization]] = (await rows(environment, 'select slug from crm_organizations')) as [[string]];
      const { json } = await service.call('POST /api/v1/leads', { key, body: { last_name: 'Ames' } });
      id = String(json.id);
      const { email, password } = service.printed;
      const { cookies } = await signIn(service, { email: String(email), password: String(password) });
      cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    });

    for (const [name, request, { locked = 'leads', ...sending } = {}] of readers)
      test(name, async () => {
        const [method = '', path = ''] = request.replace(':org', organization).replace(':id', id).split(' ');
        await holding(locked, async () => {
          const isPage = path.startsWith('/setup');
          const reader = send(method, path, { ...sending, ...(isPage && { cookie }) });
          await until(async () => (await waiting()).length > 0, 'wait for the lock');
          reader.destroy();
          await until(async () => (await waiting()).length === 0, 'end the statement');
        });
      });

    test('and reuses their connections', async () => {
      // Their next statements are not cancelled.
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
