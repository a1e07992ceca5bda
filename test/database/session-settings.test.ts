// A database whose session settings differ from PostgreSQL's defaults: responses have the same format.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import {
  drivers,
  type Instance,
  type Organization,
  postgresServer,
  startInstance,
} from '../support/instance.ts';
import { connected, makeDatabase } from '../support/postgres.ts';
import { migrated, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { partsOf } from '../support/scheduled.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;

/** Settings that change how PostgreSQL reads or writes values. */
const settings = {
  datestyle: 'German',
  intervalstyle: 'sql_standard',
  timezone: 'Asia/Kathmandu',
  bytea_output: 'escape',
  extra_float_digits: '-15',
  transform_null_equals: 'on',
};
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

interface Lead {
  readonly id: number;
  readonly created_at: string;
}

suite('a database with other session settings', () => {
  let database: Awaited<ReturnType<typeof makeDatabase>>;
  let instance: Instance;
  let organization: Organization;
  before(async () => {
    database = await makeDatabase(await postgresServer(), migrated);
    const name = new URL(database.url).pathname.slice(1);
    await connected(database.url, async (client) => {
      for (const [setting, value] of Object.entries(settings))
        await client.query(`alter database "${name}" set ${setting} = '${value}'`);
    });
    instance = await startInstance('postgresql', {
      environment: { ...patient, DATABASE_URL: database.url },
    });
    organization = await instance.organization('acme');
  });
  after(async () => {
    await instance?.close();
    await database?.drop();
  });

  const call = async (request: string, body?: object, accept = 'application/json') => {
    const answer = await instance.call(request, {
      key: organization.key,
      headers: { accept },
      ...(body && { body }),
    });
    assert.ok(answer.status < 300, `${request}: ${answer.text}`);
    return answer;
  };
  /** Returns the values of all keys that name a time, at any depth. */
  const timesIn = (value: unknown): unknown[] =>
    typeof value !== 'object' || value === null
      ? []
      : Object.entries(value).flatMap(([key, inner]) =>
          /(^|_)at$/.test(key) && inner !== null ? [inner] : timesIn(inner),
        );
  const assertTimes = (value: unknown, what: string) => {
    const times = timesIn(value);
    assert.ok(times.length > 0, `${what} contains no time`);
    for (const time of times) assert.match(String(time), isoTime, what);
  };

  test('every response contains times in ISO 8601 and UTC', async () => {
    const { next } = (await call('GET /events?after=now')).json;
    const created = await call('POST /api/v1/leads', { last_name: 'first' });
    const path = `/api/v1/leads/${created.json.id}`;
    assertTimes(created.json, 'a created record');
    assertTimes((await call(`PATCH ${path}`, { last_name: 'second' })).json, 'an updated record');
    const batch = { records: [{ last_name: 'third' }] };
    await call('POST /api/v1/leads/batch', batch);
    for (const request of [
      `GET ${path}`,
      'GET /api/v1/leads',
      'GET /api/v1/leads?page=1&sort=updated_at',
      `GET ${path}/history`,
    ])
      assertTimes((await call(request)).json, request);
    // A running transaction delays the feed.
    await until(async () => {
      const { json } = await call(`GET /events?after=${next}`);
      if ((json.data as readonly unknown[]).length === 0) return false;
      assertTimes(json, 'the change feed');
      return true;
    }, 'read a change');
    const lines = (await call('GET /api/v1/leads', undefined, 'application/x-ndjson')).text;
    for (const line of lines.trim().split('\n')) assertTimes(JSON.parse(line), 'an export');
  });

  test('times in filters and cursors keep their meaning', async () => {
    organization = await instance.organization('other');
    for (let count = 0; count < 25; count++) await call('POST /api/v1/leads', { last_name: `lead ${count}` });
    const list = async (query: string) => (await call(`GET /api/v1/leads?${query}`)).json.data as Lead[];
    const sorted = 'sort=created_at&dir=asc';
    const first = await call(`GET /api/v1/leads?${sorted}`);
    const next = /<([^>]*)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] ?? assert.fail();
    const leads = [...(first.json.data as Lead[]), ...((await call(`GET ${next}`)).json.data as Lead[])];
    assert.equal(new Set(leads.map(({ id }) => id)).size, 25);
    const start = leads[0]?.created_at;
    assert.equal((await list(`${sorted}&created_at[gte]=${start}`)).length, 20);
    assert.equal((await list(`${sorted}&created_at[lt]=${start}`)).length, 0);
  });

  test('each kind of connection has its own time limits, which options in the URL can change', async () => {
    const parameters = 'application_name=limited&options=-cjit=on%20-csearch_path=elsewhere,public';
    const limits = {
      DATABASE_URL: `${database.url}?${parameters}`,
      DATABASE_STATEMENT_TIMEOUT_MS: '40000',
      // A list has the shorter limit.
      DATABASE_LIST_TIMEOUT_MS: '50000',
      DATABASE_LOCK_TIMEOUT_MS: '30000',
    };
    const opened = await openDatabase(readConfig({ ...patient, ...limits }), []);
    try {
      const { primary, writeBatcher } = partsOf(opened);
      const names = [
        ...['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'],
        ...['plan_cache_mode', 'max_parallel_workers_per_gather'],
        ...['jit', 'search_path', 'application_name'],
      ];
      const text = `select ${names.map((name) => `current_setting('${name}')`).join(', ')}`;
      const select = { name: 'settings', text, values: [] };
      const settingsOf = (statement: string, lock: string) => [
        [...[statement, lock, '10s', 'force_generic_plan', '0'], ...['on', 'elsewhere,public', 'limited']],
      ];
      for (const lane of ['read', 'write', 'list', 'deep', 'scan', 'aggregate'] as const)
        assert.deepEqual(await primary.run({ ...select, lane }), settingsOf('40s', '30s'), lane);
      // These connections are opened when they are needed. Without one, a statement runs in the pool.
      const many = { ...select, name: 'settings_many', differ: 0, lists: false };
      for (const [shared, lane, settings] of [
        [primary.pipelines, 'read', settingsOf('250ms', '50ms')],
        [writeBatcher, 'write', settingsOf('1s', '50ms')],
      ] as const) {
        let rows: unknown;
        await until(async () => {
          rows = await shared?.run({ ...select, lane, many }, '1');
          return rows !== undefined;
        }, `a connection for short statements (${lane})`);
        assert.deepEqual(rows, settings, lane);
      }
    } finally {
      await opened.close();
    }
    await connected(database.url, (client) =>
      until(async () => {
        const text = `select from pg_stat_activity where application_name = 'limited'`;
        return (await client.query(text)).rowCount === 0;
      }, 'every connection to close'),
    );
  });

  test('statements that can return many records have the time limit of lists, and all others have the limit of statements', async () => {
    const limits = { DATABASE_STATEMENT_TIMEOUT_MS: '40000', DATABASE_LIST_TIMEOUT_MS: '20000' };
    const opened = await openDatabase(readConfig({ ...patient, ...limits, DATABASE_URL: database.url }), []);
    try {
      for (const [limit, lanes] of [
        ['20s', ['list', 'deep', 'scan', 'aggregate']],
        ['40s', ['read', 'write', 'batch', 'export']],
      ] as const)
        for (const lane of lanes) {
          const select = { name: '', text: 'show statement_timeout', values: [] };
          assert.deepEqual(await partsOf(opened).primary.run({ ...select, lane }), [[limit]], lane);
        }
    } finally {
      await opened.close();
    }
  });
});
