// The change feed: every change once, in an order that a reader may rely on, to those who may see it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { profileId } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { ensureEpoch } from '../../plugins/change-log/epoch.ts';
import { findFeedBlocker } from '../../plugins/change-log/lag.ts';
import { feedCursors } from '../../plugins/change-log/position.ts';
import { changeLogRetention } from '../../plugins/change-log/retention.ts';
import { feedSigning } from '../../plugins/change-log/signing.ts';
import { type StreamContext, stream } from '../../plugins/change-log/stream.ts';
import type { Change } from '../support/changes.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { fresh, logIn, makePerson, secondNode } from '../support/people.ts';
import { until } from '../support/process.ts';

/** The events of a stream, by the names of their lines. */
async function* events(response: Response): AsyncGenerator<Record<string, string>, undefined> {
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      yield Object.fromEntries(lines.map((line) => line.split(/: ?(.*)/s)));
    }
  }
  return undefined;
}

const next = async (stream: AsyncGenerator<Record<string, string>, undefined>) =>
  (await stream.next()).value ?? assert.fail('the stream has ended');

onBothDrivers(
  'the change feed',
  (instance, driver) => {
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
    const streamOf = (query: string, signal: AbortSignal, headers: Readonly<Record<string, string>>) =>
      fetch(`${instance().url}/events?${query}`, {
        headers: { accept: 'text/event-stream', ...headers },
        signal,
      });
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
      // The record before counts too, although it is in another row.
      const id = await make('leads', large, other.key);
      const { next } = await read('after=now', other.key);
      for (const last_name of ['a', 'b', 'c', 'd'])
        await instance().call(`PATCH /api/v1/leads/${id}`, { key: other.key, body: { last_name } });
      assert.equal((await read(`after=${next}`, other.key)).changes.length, 2);
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
      const id = await make('leads', { last_name: 'Awaited' });
      // They respond to the change, and not to the end of their time: before one that began last and waits for less.
      const order: string[] = [];
      const later = read(`after=${await now()}&wait=10&resources=cases`).then(() => order.push('later'));
      for (const { changes } of await Promise.all(waiting))
        assert.deepEqual(told(changes), [`create leads ${id} v1`]);
      order.push('all');
      await later;
      assert.deepEqual(order, ['all', 'later']);
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
        streamOf(`after=${start}`, stop.signal, { authorization: `Bearer ${acme.key}`, ...headers });
      const first = await make('leads', { last_name: 'One' });
      const response = await open({});
      assert.equal(response.headers.get('content-type'), 'text/event-stream');
      assert.equal(response.headers.get('x-accel-buffering'), 'no', 'proxies pass it on as it comes');
      assert.equal(response.headers.get('cache-control'), 'no-store');
      const stream = events(response);
      const one = await next(stream);
      assert.deepEqual(told([JSON.parse(one.data ?? '')]), [`create leads ${first} v1`]);
      const second = await make('leads', { last_name: 'Two' });
      const two = await next(stream);
      assert.deepEqual(told([JSON.parse(two.data ?? '')]), [`create leads ${second} v1`]);
      const again = events(await open({ 'last-event-id': one.id ?? '' }));
      assert.deepEqual(JSON.parse((await next(again)).data ?? ''), JSON.parse(two.data ?? ''));
      const silent = await next(stream);
      assert.equal(silent[''], 'heartbeat');
      assert.deepEqual((await read(`after=${silent.id}`)).changes, []);
      stop.abort();
    });

    test('a stream starts immediately, also where it has nothing to show', async () => {
      const stop = new AbortController();
      const headers = { authorization: `Bearer ${acme.key}` };
      // Heartbeats come every 10 s: the first one comes before a wait that began earlier and lasts half as long has ended.
      let isOver = false;
      const wait = read(`after=${await now()}&wait=5&resources=cases`).then(() => {
        isOver = true;
      });
      const stream = events(await streamOf('after=now&resources=accounts', stop.signal, headers));
      const { id, ...comment } = await next(stream);
      assert.ok(!isOver, 'immediately');
      assert.deepEqual(comment, { '': 'heartbeat' });
      assert.deepEqual((await read(`after=${id}`)).changes, []);
      stop.abort();
      await wait;
    });

    test('a stream and a wait end where cursors of before are worth nothing', async () => {
      const stop = new AbortController();
      const start = await now();
      const stream = events(
        await streamOf('after=now', stop.signal, { authorization: `Bearer ${acme.key}` }),
      );
      await next(stream);
      const waiting = get(`after=${start}&wait=20`);
      await pause(300);
      await tablesOf(instance().database).updateTable('crm_ledger_epochs').set({ source: 'moved' }).execute();
      await make('leads', { last_name: 'Of the new epoch' });
      assert.deepEqual(await stream.next(), { done: true, value: undefined });
      assert.equal((await waiting).json.code, 'cursor_expired');
    });

    test('a stream and a wait stay in the organization with which they began', async () => {
      const stop = new AbortController();
      const [from, to] = [
        await instance().organization(fresh('from')),
        await instance().organization(fresh('to')),
      ];
      const person = await makePerson(instance(), [{ organization: from }], { verified: true });
      const { byToken } = await logIn(instance(), person);
      const stream = events(await streamOf('after=now', stop.signal, byToken));
      await next(stream);
      const { next: start } = (await get('after=now', { headers: byToken })).json;
      const waiting = get(`after=${start}&wait=20`, { headers: byToken });
      await pause(300);
      await tablesOf(instance().database)
        .updateTable('crm_memberships')
        .set({
          organization_id: to.id,
          profile_id: await profileId(tablesOf(instance().database), to.id, 'administrator'),
        })
        .where('user_id', '=', person.id)
        .execute();
      // A session is known for less than a second.
      await pause(800);
      await make('leads', { last_name: 'Theirs' }, to.key);
      await make('leads', { last_name: 'Ours' }, from.key);
      assert.deepEqual(await stream.next(), { done: true, value: undefined });
      assert.equal((await waiting).json.code, 'not_a_member');
    });

    test('a stream is one use of a session, however long it lasts', async () => {
      const stop = new AbortController();
      const person = await makePerson(instance(), [{ organization: acme }]);
      const { byCookie, session } = await logIn(instance(), person);
      const stream = events(await streamOf('after=now', stop.signal, byCookie));
      await next(stream);
      const used = instance().app.sessionLastUsed(session);
      await make('leads', { last_name: 'Shown' });
      await next(stream);
      // Nothing where it was stored in the meantime.
      assert.ok([used, undefined].includes(instance().app.sessionLastUsed(session)));
      stop.abort();
    });

    test('a reader that takes nothing does not keep the service from stopping', async () => {
      const other = await instance().organization(fresh('slow'));
      for (let count = 0; count < 12; count++)
        await make('leads', { last_name: 'Large', description: 'x'.repeat(900_000) }, other.key);
      const node = await secondNode(instance());
      const { hostname, port } = new URL(node.url);
      const socket = connect(Number(port), hostname);
      // It is cut.
      socket.on('error', () => {});
      socket.write(
        `GET /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${other.key}\r\nAccept: text/event-stream\r\n\r\n`,
      );
      await once(socket, 'data');
      socket.pause();
      // Until the kernel takes no more of it.
      await pause(1000);
      let isLate = false;
      const late = setTimeout(() => {
        isLate = true;
        socket.destroy();
      }, 20_000);
      await node.close();
      clearTimeout(late);
      assert.ok(!isLate, 'it waits for no reader');
      socket.destroy();
    });

    test('an instance that records nothing says so', async () => {
      const node = await secondNode(instance(), { audit: false });
      const answer = await node.call('GET /events', { key: acme.key });
      assert.deepEqual([answer.status, answer.json.code], [501, 'not_recorded']);
      assert.equal((await node.call('HEAD /events', { key: acme.key })).status, 501);
      await node.close();
    });

    // The embedded database has one connection.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('a transaction that is still running holds back what came after it', async () => {
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
        await until(
          async () => (await findFeedBlocker(database)).pid === String(rows[0]?.pid),
          'it to be the oldest',
        );
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
      test('beyond the end, as if the database had lost transactions; the end itself is served', async () => {
        const { read: placeOf, write } = feedCursors(
          feedSigning(instanceSecrets(instance().config)),
          acme.id,
        );
        const start = placeOf(await now()) ?? assert.fail('a cursor is a place');
        const after = (transactions: bigint) =>
          write({ ...start, transaction: String(BigInt(start.transaction) + transactions) });
        assert.equal((await get(`after=${after(0n)}`)).status, 200);
        // Other transactions may begin in the meantime, but not as many.
        await refused(after(1_000_000_000n));
      });
      test('older than what is kept', async () => {
        const { database } = instance();
        await make('leads', { last_name: 'Old' });
        const start = await now();
        await tablesOf(database)
          .updateTable('crm_ledger')
          .set({ at: new Date(Date.now() - 40 * 86_400_000) })
          .execute();
        assert.ok((await changeLogRetention(tablesOf(database), 30)) > 0);
        assert.equal((await get(`after=${start}`)).status, 200, 'it is younger');
        await tablesOf(database)
          .updateTable('crm_ledger_epochs')
          .set({ pruned_before: new Date() })
          .execute();
        await refused(start);
      });
      test('but not what begins with the oldest that is kept', async () => {
        const { database } = instance();
        const records = Array.from({ length: 600 }, () => ({ last_name: 'Oldest' }));
        await instance().call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
        const oldest = new Date(Date.now() - 30 * 86_400_000);
        await tablesOf(database).updateTable('crm_ledger').set({ at: oldest }).execute();
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ pruned_before: oldest }).execute();
        const page = (await get('')).json as { data: unknown[]; next: string };
        assert.equal(page.data.length, 500);
        const { status } = await get(`after=${page.next}`);
        assert.equal(status, 200);
      });
      test('HEAD says so too', async () => {
        const expired = await now();
        const statuses = async () => {
          const found: number[] = [];
          for (const query of ['after=now', 'after=x', `after=${expired}`])
            found.push((await instance().call(`HEAD /events?${query}`, { key: acme.key })).status);
          const nothing = await acme.keyWith([]);
          found.push((await instance().call('HEAD /events?resources=leads', { key: nothing })).status);
          return found;
        };
        assert.deepEqual(await statuses(), [200, 400, 200, 403]);
        const { database } = instance();
        await tablesOf(database)
          .updateTable('crm_ledger_epochs')
          .set({ pruned_before: new Date(Date.now() + 7_200_000) })
          .execute();
        assert.deepEqual(await statuses(), [200, 400, 410, 403]);
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
        await ensureEpoch(database, true);
        assert.ok(told((await read('')).changes).includes(`create leads ${id} v1`));
      });
      test('of before a time in which nothing was recorded', async () => {
        const start = await now();
        await ensureEpoch(instance().database, true);
        assert.equal((await get(`after=${start}`)).status, 200);
        await ensureEpoch(instance().database, false);
        await ensureEpoch(instance().database, false);
        await ensureEpoch(instance().database, true);
        await refused(start);
      });
    });
  },
  { ownServer: true },
);

describe('a stream', () => {
  const place = { epoch: 'e', transaction: '1', id: '1', at: 0 };
  const empty = { entries: [], isFull: false, end: place, prunedBefore: 0 };
  const { signal } = new AbortController();
  const parts: StreamContext = {
    organization: '1',
    signal,
    read: async () => empty,
    // Something is written all the time that the reader did not ask for.
    wait: async () => pause(1),
    cursorOf: () => 'c',
    hold: () => () => {},
    heartbeatMs: 30,
  };

  test('says that it is alive where only others have changes', async () => {
    const began = performance.now();
    const texts = stream(empty, parts);
    for (let count = 0; count < 3; count++)
      assert.equal(String((await texts.next()).value), ': heartbeat\nid: c\n\n');
    assert.ok(performance.now() - began >= 58);
  });

  test('counts what its reader has not taken', async () => {
    let held = 0;
    const hold = (_organization: string, bytes: number) => {
      held += bytes;
      return () => {
        held -= bytes;
      };
    };
    const page = { ...empty, entries: [{ change: 'x'.repeat(40_000), position: place }] };
    const texts = stream(page, { ...parts, hold });
    await texts.next();
    assert.ok(held > 40_000);
    await texts.return(undefined);
    assert.equal(held, 0);
  });
});
