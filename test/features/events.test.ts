// The change feed: every change once, in an order that a reader may rely on, to those who may see it.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { keepEpoch } from '../../plugins/ledger/epoch.ts';
import { obstacle } from '../../plugins/ledger/lag.ts';
import { prune } from '../../plugins/ledger/retention.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';

interface Change {
  readonly resource: string;
  readonly id: number;
  readonly action: string;
  readonly version: number;
  readonly changed: readonly string[];
  readonly before: Record<string, unknown> | null;
  readonly after: Record<string, unknown> | null;
}

onBothDrivers('the change feed', (instance, driver) => {
  let acme: Organization;
  before(async () => {
    acme = await instance().organization('acme');
  });
  const get = (query: string, { key = acme.key, headers = {} } = {}) =>
    instance().call(`GET /events?${query}`, { headers: { authorization: `Bearer ${key}`, ...headers } });
  const read = async (query: string, key?: string) => {
    const answer = await get(query, { ...(key && { key }) });
    assert.equal(answer.status, 200, answer.text);
    return { changes: answer.json.data as Change[], next: String(answer.json.next) };
  };
  const now = async (key?: string) => (await read('after=now', key)).next;
  const make = async (resource: string, body: unknown, key = acme.key) => {
    const answer = await instance().call(`POST /api/v1/${resource}`, { key, body });
    assert.equal(answer.status, 201, answer.text);
    return Number(answer.json.id);
  };
  const told = (changes: readonly Change[]) =>
    changes.map(({ action, resource, id, version }) => `${action} ${resource} ${id} v${version}`);

  test('after a cursor: each change once, with the record before and after it', async () => {
    const start = await now();
    const id = await make('leads', { last_name: 'Ames' });
    await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { last_name: 'Bond' } });
    await instance().call(`DELETE /api/v1/leads/${id}`, { key: acme.key });
    const { changes, next } = await read(`after=${start}`);
    assert.deepEqual(told(changes), [
      `create leads ${id} v1`,
      `update leads ${id} v2`,
      `delete leads ${id} v3`,
    ]);
    assert.deepEqual(
      changes.map((change) => [change.before?.last_name ?? null, change.after?.last_name ?? null]),
      [
        [null, 'Ames'],
        ['Ames', 'Bond'],
        ['Bond', null],
      ],
    );
    assert.deepEqual((await read(`after=${next}`)).changes, []);
    assert.deepEqual(told((await read(`after=${start}`)).changes), told(changes), 'it can be read again');
  });

  test('from the beginning, in pages', async () => {
    const other = await instance().organization(fresh('pages'));
    const records = Array.from({ length: 600 }, (_, index) => ({ last_name: `n${index}` }));
    const answer = await instance().call('POST /api/v1/leads/batch', { key: other.key, body: { records } });
    assert.equal(answer.status, 200, answer.text);
    const first = await read('', other.key);
    const second = await read(`after=${first.next}`, other.key);
    assert.deepEqual([first.changes.length, second.changes.length], [500, 100]);
    const names = [...first.changes, ...second.changes].map(({ after }) => after?.last_name);
    assert.equal(new Set(names).size, 600);
    const large = { description: 'x'.repeat(900_000) };
    for (let count = 0; count < 4; count++) await make('leads', large, other.key);
    const cut = await read(`after=${second.next}`, other.key);
    assert.equal(cut.changes.length, 3);
    assert.equal((await read(`after=${cut.next}`, other.key)).changes.length, 1);
  });

  test('only what the caller may list, of its own organization', async () => {
    const other = await instance().organization(fresh('else'));
    const start = await now();
    await make('leads', { last_name: 'Theirs' }, other.key);
    const lead = await make('leads', { last_name: 'Ours' });
    const account = await make('accounts', { name: 'Ours' });
    const clerk = await acme.keyWith([{ object: 'accounts', actions: ['list'] }]);
    const both = [`create leads ${lead} v1`, `create accounts ${account} v1`];
    assert.deepEqual(told((await read(`after=${start}`)).changes), both);
    assert.deepEqual(told((await read(`after=${start}&resources=leads`)).changes), both.slice(0, 1));
    assert.deepEqual(told((await read(`after=${start}&resources=accounts,leads`)).changes), both);
    assert.deepEqual(told((await read(`after=${start}`, clerk)).changes), both.slice(1));
    const none = await acme.keyWith([{ object: 'accounts', actions: ['read'] }]);
    for (const [query, key, status] of [
      ['', none, 403],
      ['resources=leads', clerk, 403],
      ['resources=nothing', acme.key, 400],
      [`after=${start}`, other.key, 400],
      [`after=${start}x`, acme.key, 400],
      ['after=.', acme.key, 400],
      ['wait=26', acme.key, 400],
      ['wait=x', acme.key, 400],
      ['wait=1&wait=2', acme.key, 400],
      ['', 'crm_nothing', 401],
    ] as const) {
      const answer = await get(query, { key });
      assert.equal(answer.status, status, `${query}: ${answer.text}`);
    }
    assert.equal((await instance().call('POST /events', { key: acme.key, body: {} })).status, 405);
  });

  test('waits for a change, without a connection of the database, and not longer than it says', async () => {
    const start = await now();
    const began = performance.now();
    const nothing = await read(`after=${start}&wait=1`);
    assert.deepEqual(nothing.changes, []);
    assert.ok(performance.now() - began >= 950);
    const waiting = Array.from({ length: 40 }, () => read(`after=${nothing.next}&wait=20&resources=leads`));
    await pause(300);
    await make('accounts', { name: 'Not asked for' });
    await pause(300);
    const changed = performance.now();
    const id = await make('leads', { last_name: 'Awaited' });
    for (const { changes } of await Promise.all(waiting))
      assert.deepEqual(told(changes), [`create leads ${id} v1`]);
    assert.ok(performance.now() - changed < 3000);
  });

  test('of each organization only so many wait', async () => {
    const other = await instance().organization(fresh('many'));
    const start = await now(other.key);
    const waiting = Array.from({ length: 51 }, () => get(`after=${start}&wait=2`, { key: other.key }));
    const statuses = (await Promise.all(waiting)).map(({ status }) => status).sort();
    assert.deepEqual(statuses, [...Array(50).fill(200), 503]);
  });

  test('a stream has the same, and its ids continue it', async () => {
    const start = await now();
    const stop = new AbortController();
    const open = (headers: Record<string, string>) =>
      fetch(`${instance().url}/events?after=${start}`, {
        headers: { authorization: `Bearer ${acme.key}`, accept: 'text/event-stream', ...headers },
        signal: stop.signal,
      });
    const events = async function* (response: Response) {
      let text = '';
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString();
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const lines = text.slice(0, end).split('\n');
          text = text.slice(end + 2);
          yield Object.fromEntries(lines.map((line) => line.split(/: ?(.*)/s)));
        }
      }
    };
    const first = await make('leads', { last_name: 'One' });
    const response = await open({});
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    const stream = events(response);
    const one = (await stream.next()).value;
    assert.deepEqual(told([JSON.parse(one.data)]), [`create leads ${first} v1`]);
    const second = await make('leads', { last_name: 'Two' });
    const two = (await stream.next()).value;
    assert.deepEqual(told([JSON.parse(two.data)]), [`create leads ${second} v1`]);
    const again = events(await open({ 'last-event-id': one.id }));
    assert.deepEqual(JSON.parse((await again.next()).value.data), JSON.parse(two.data));
    const silent = (await stream.next()).value;
    assert.equal(silent[''], 'heartbeat');
    assert.deepEqual((await read(`after=${silent.id}`)).changes, []);
    stop.abort();
  });

  test('a transaction that is still running holds back what came after it', {
    skip: driver === 'embedded',
  }, async () => {
    const start = await now();
    const { database } = instance();
    let after = 0;
    await transaction(database, async (tables) => {
      const { rows } = await sql<{
        pid: number;
      }>`select pg_backend_pid() as pid, pg_current_xact_id()`.execute(tables);
      after = await make('leads', { last_name: 'After' });
      assert.deepEqual((await read(`after=${start}`)).changes, []);
      // Transactions of other databases of the server may be older for a moment.
      await until(async () => (await obstacle(database)).pid === String(rows[0]?.pid), 'it to be the oldest');
    });
    await until(async () => (await read(`after=${start}`)).changes.length > 0, 'the change');
    assert.deepEqual(told((await read(`after=${start}`)).changes), [`create leads ${after} v1`]);
  });

  describe('a cursor is refused where changes after it may be missing', () => {
    const refused = async (cursor: string) => {
      const answer: Answer = await get(`after=${cursor}`);
      assert.equal(answer.status, 410, answer.text);
      assert.equal(answer.json.code, 'cursor_expired');
    };
    test('older than what is kept', async () => {
      const { database } = instance();
      await make('leads', { last_name: 'Old' });
      const start = await now();
      await tablesOf(database)
        .updateTable('crm_ledger')
        .set({ at: new Date(Date.now() - 40 * 86_400_000) })
        .execute();
      assert.ok((await prune(tablesOf(database), 30)) > 0);
      assert.equal((await get(`after=${start}`)).status, 200, 'it is younger');
      await tablesOf(database).updateTable('crm_ledger_epochs').set({ pruned_before: new Date() }).execute();
      await refused(start);
    });
    test('of another time of the database', async () => {
      const { database } = instance();
      await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'elsewhere' }).execute();
      const start = await now();
      await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'restored' }).execute();
      await refused(start);
      const id = await make('leads', { last_name: 'Kept' });
      // As if it came from a server that had carried out more transactions.
      await sql`update crm_ledger set transaction = '9000000000000000000' where object_id = ${id}`.execute(
        tablesOf(database),
      );
      await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'moved' }).execute();
      await keepEpoch(database, true);
      assert.ok(told((await read('')).changes).includes(`create leads ${id} v1`));
    });
    test('of before a time in which nothing was recorded', async () => {
      const start = await now();
      await keepEpoch(instance().database, true);
      assert.equal((await get(`after=${start}`)).status, 200);
      await keepEpoch(instance().database, false);
      await keepEpoch(instance().database, false);
      await keepEpoch(instance().database, true);
      await refused(start);
    });
  });
});
