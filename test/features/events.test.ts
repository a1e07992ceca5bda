// The change feed returns every change exactly once, in a reliable order, to callers that are allowed to see
// it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import fastify from 'fastify';
import { sql } from 'kysely';
import { backgroundWork } from '../../engine/modules/index.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/handle.ts';
import { changeProfile, createProfile, profileId } from '../../plugins/access/profiles/profiles.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { ensureEpoch } from '../../plugins/change-log/epoch.ts';
import { findFeedBlocker, watchFeed } from '../../plugins/change-log/lag.ts';
import { feedCursors, feedSigning } from '../../plugins/change-log/position.ts';
import { changeLogRetention } from '../../plugins/change-log/retention.ts';
import { createWaiters, type StreamContext, stream } from '../../plugins/change-log/stream.ts';
import type { Change } from '../support/changes.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { command, fresh, logIn, makePerson, secondNode } from '../support/people.ts';
import { until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';
import { mayBeIdle } from '../support/uncommitted.ts';

/** Yields a stream's events as objects keyed by field name. */
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
/** Returns the next change. On a busy machine, heartbeats can precede it. */
const nextChange = async (stream: AsyncGenerator<Record<string, string>, undefined>) => {
  for (;;) {
    const event = await next(stream);
    if (event.data !== undefined) return event;
  }
};
/** Reads a stream to its end. @returns its changes */
const restOf = async (stream: AsyncGenerator<Record<string, string>, undefined>) => {
  const changes: Record<string, string>[] = [];
  for await (const event of stream) if (event.data !== undefined) changes.push(event);
  return changes;
};

onBothDrivers(
  'the change feed',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const get = (query: string, { key = acme.key, headers = {} } = {}) =>
      instance().call(`GET /events?${query}`, { headers: { authorization: `Bearer ${key}`, ...headers } });
    /** Waits until no transaction that has already started holds back the feed, for example one of background work. */
    const caughtUp = async () => {
      const snapshot = async (text: string, ...values: string[]) =>
        String((await instance().database.run({ name: '', text, values }))[0]?.[0]);
      const end = await snapshot('select pg_snapshot_xmax(pg_current_snapshot())::text');
      await until(
        async () =>
          (await snapshot(
            'select (pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8)::text',
            end,
          )) === 'true',
        'earlier transactions to end',
      );
    };
    const read = async (query: string, key?: string) => {
      await caughtUp();
      const answer = await get(query, { ...(key && { key }) });
      assert.equal(answer.status, 200, answer.text);
      return { changes: answer.json.data as Change[], next: String(answer.json.next) };
    };
    /**
     * Waits until a number of an organization's readers are waiting for changes.
     * @param isOver returns whether a reader has stopped waiting, which ends this wait too
     */
    const untilWaiting = async (organization: Organization, count: number, isOver = () => false) => {
      const { database } = instance();
      const { run } = database;
      let waiting = 0;
      Object.assign(database, {
        run: (statement: Parameters<typeof run>[0]) => {
          // Checks all waiting readers. The first value contains their organizations.
          if (statement.name === 'ledger_new')
            waiting = String(statement.values[0])
              .split(/\D+/)
              .filter((id) => id === organization.id).length;
          return run(statement);
        },
      });
      try {
        await until(() => waiting >= count || isOver(), `${count} readers to wait`);
      } finally {
        Object.assign(database, { run });
      }
    };
    /**
     * Starts a wait for a change that does not happen.
     * @returns a function that returns whether the wait has ended
     */
    const waitInVain = (query: string, signal: AbortSignal): (() => boolean) => {
      let isOver = false;
      const end = () => {
        isOver = true;
      };
      fetch(`${instance().url}/events?${query}`, {
        headers: { authorization: `Bearer ${acme.key}` },
        signal,
      }).then(end, () => {});
      return () => isOver;
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
    const summaries = (changes: readonly Change[]) =>
      changes.map(({ action, resource, id, version }) => `${action} ${resource} ${id} v${version}`);

    test('returns each change after a cursor once, with the record before and after it', async () => {
      const start = await now();
      const id = await make('leads', { last_name: 'Ames' });
      await instance().call(`PATCH /api/v1/leads/${id}`, { key: acme.key, body: { last_name: 'Bond' } });
      await instance().call(`DELETE /api/v1/leads/${id}`, { key: acme.key });
      const { changes, next } = await read(`after=${start}`);
      assert.deepEqual(summaries(changes), [
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
      assert.equal((await get(`after=${next}`)).headers.get('cache-control'), 'no-store');
      assert.deepEqual(
        summaries((await read(`after=${start}`)).changes),
        summaries(changes),
        'the cursor can be used again',
      );
    });

    test('returns pages from the beginning', async () => {
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
      // The previous record counts towards a page's size, although it is stored in another row.
      const id = await make('leads', large, other.key);
      const { next } = await read('after=now', other.key);
      for (const last_name of ['a', 'b', 'c', 'd'])
        await instance().call(`PATCH /api/v1/leads/${id}`, { key: other.key, body: { last_name } });
      assert.equal((await read(`after=${next}`, other.key)).changes.length, 2);
    });

    test('returns only changes to resources that the caller can list, in its own organization', async () => {
      const other = await instance().organization(fresh('else'));
      const start = await now();
      await make('leads', { last_name: 'Theirs' }, other.key);
      const lead = await make('leads', { last_name: 'Ours' });
      const account = await make('accounts', { name: 'Ours' });
      const clerk = await acme.keyWith([{ object: 'accounts', actions: ['list'] }]);
      const both = [`create leads ${lead} v1`, `create accounts ${account} v1`];
      assert.deepEqual(summaries((await read(`after=${start}`)).changes), both);
      assert.deepEqual(summaries((await read(`after=${start}&resources=leads`)).changes), both.slice(0, 1));
      assert.deepEqual(summaries((await read(`after=${start}&resources=accounts,leads`)).changes), both);
      assert.deepEqual(summaries((await read(`after=${start}`, clerk)).changes), both.slice(1));
      const none = await acme.keyWith([{ object: 'accounts', actions: ['read'] }]);
      for (const [query, key, status] of [
        ['', none, 403],
        ['resources=leads', clerk, 403],
        ['resources=accounts,leads', clerk, 403],
        ['resources=nothing', acme.key, 400],
        [`after=${start}`, other.key, 400],
        ['after=&resources=&wait=', acme.key, 200],
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

    test('waits up to the requested time for a change, without holding a database connection', async () => {
      const start = await now();
      const startedAt = performance.now();
      const nothing = await read(`after=${start}&wait=1`);
      assert.deepEqual(nothing.changes, []);
      assert.ok(performance.now() - startedAt >= 950);
      // On a busy machine, the waits can time out before the change.
      await until(async () => {
        const from = await now();
        let ended = 0;
        const waiting = Array.from({ length: 40 }, () =>
          read(`after=${from}&wait=25&resources=leads`).finally(() => ended++),
        );
        await untilWaiting(acme, waiting.length, () => ended > 0);
        await make('accounts', { name: 'Not asked for' });
        await pause(300);
        const id = await make('leads', { last_name: 'Awaited' });
        // Each wait ends because of the change rather than its timeout, that is, before a wait that started
        // last and has a shorter timeout.
        const stop = new AbortController();
        const isOver = waitInVain(`after=${await now()}&wait=24&resources=cases`, stop.signal);
        const pages = await Promise.all(waiting);
        const isTimely = !isOver() && pages.every(({ changes }) => changes.length > 0);
        stop.abort();
        for (const { changes } of pages)
          if (changes.length > 0) assert.deepEqual(summaries(changes), [`create leads ${id} v1`]);
        return isTimely;
      }, 'each wait to end because of the change');
    });

    test('limits concurrent waits per organization', async () => {
      const other = await instance().organization(fresh('many'));
      const earlier = await now(other.key);
      await make('leads', { last_name: 'Earlier' }, other.key);
      const start = await now(other.key);
      const waiting = Array.from({ length: 51 }, () => get(`after=${start}&wait=25`, { key: other.key }));
      // One wait returns immediately, and the others return when there is a change.
      assert.equal((await Promise.race(waiting)).status, 503);
      // Requests that do not wait, because there are changes or because they are not for a body, need no place.
      const { changes } = await read(`after=${earlier}&wait=25`, other.key);
      assert.equal(changes.length, 1);
      for (const accept of ['application/json', 'text/event-stream']) {
        const head = await instance().call(`HEAD /events?after=${start}&wait=25`, {
          headers: { authorization: `Bearer ${other.key}`, accept },
        });
        assert.deepEqual(
          [head.status, head.headers.get('content-type')],
          [200, 'application/json; charset=utf-8'],
          accept,
        );
      }
      await make('leads', { last_name: 'Awaited' }, other.key);
      const statuses = (await Promise.all(waiting)).map(({ status }) => status).sort();
      assert.deepEqual(statuses, [...Array(50).fill(200), 503]);
    });

    test('limits concurrent waits of all organizations, and each that ends makes room for one', () => {
      const { enter } = createWaiters(instance().database);
      const overloaded = { status: 503, code: 'overloaded' };
      const enterMany = (count: number) =>
        Array.from({ length: count }, (_, index) => enter(String(index % 20)));
      const ends = enterMany(1000);
      assert.throws(() => enter('another'), overloaded);
      for (let times = 0; times < 2; times++) ends[0]?.();
      enter('another');
      assert.throws(() => enter('another'), overloaded);
      for (const end of ends) end();
      enterMany(999);
      assert.throws(() => enter('another'), overloaded);
    });

    test('clients that disconnect from streams and waits make room for others', async () => {
      const other = await instance().organization(fresh('left'));
      const headers = { authorization: `Bearer ${other.key}` };
      const start = await now(other.key);
      const stop = new AbortController();
      // On a busy machine, a wait can time out before the test ends it.
      const waits = Array.from({ length: 25 }, async () => {
        while (!stop.signal.aborted) {
          const url = `${instance().url}/events?after=${start}&wait=25`;
          await (await fetch(url, { headers, signal: stop.signal })).text();
        }
      });
      const open = (signal: AbortSignal) => streamOf('after=now', signal, headers);
      const streams = await Promise.all(Array.from({ length: 25 }, () => open(stop.signal)));
      assert.deepEqual(new Set(streams.map(({ status }) => status)), new Set([200]));
      const isFull = async () => {
        const attempt = new AbortController();
        const { status } = await open(attempt.signal);
        attempt.abort();
        return status === 503;
      };
      await until(isFull, 'the limit');
      stop.abort();
      await Promise.allSettled(waits);
      // All places are free again, not only one.
      await until(async () => {
        const attempt = new AbortController();
        const opened = await Promise.all(Array.from({ length: 50 }, () => open(attempt.signal)));
        attempt.abort();
        return opened.every(({ status }) => status === 200);
      }, 'all places');
    });

    test('waits that end with an error make room for others', async () => {
      const other = await instance().organization(fresh('failed'));
      const wait = async (count: number, seconds: number) => {
        const start = await now(other.key);
        return Array.from({ length: count }, () => get(`after=${start}&wait=${seconds}`, { key: other.key }));
      };
      const statuses = async (answers: readonly Promise<Answer>[]) =>
        new Set((await Promise.all(answers)).map(({ status }) => status));
      // On a busy machine, the waits can time out before the error.
      await until(async () => {
        let ended = 0;
        const waiting = (await wait(50, 25)).map((answer) => answer.finally(() => ended++));
        await untilWaiting(other, 50, () => ended > 0);
        await tablesOf(instance().database)
          .updateTable('crm_ledger_epochs')
          .set({ source: 'left' })
          .execute();
        const isTimely = ended === 0;
        await make('leads', { last_name: 'Awaited' }, other.key);
        const answered = await statuses(waiting);
        if (isTimely) assert.deepEqual(answered, new Set([410]));
        return isTimely;
      }, 'each wait to end with an error');
      assert.deepEqual(await statuses(await wait(50, 1)), new Set([200]));
    });

    test('streams return the same changes, and their IDs can be used as cursors', async () => {
      const start = await now();
      const stop = new AbortController();
      const open = (headers: Record<string, string>) =>
        streamOf(`after=${start}`, stop.signal, { authorization: `Bearer ${acme.key}`, ...headers });
      const first = await make('leads', { last_name: 'One' });
      const response = await open({});
      assert.equal(response.headers.get('content-type'), 'text/event-stream');
      assert.equal(response.headers.get('x-accel-buffering'), 'no', 'proxies do not buffer it');
      assert.equal(response.headers.get('cache-control'), 'no-store');
      const stream = events(response);
      const one = await nextChange(stream);
      assert.deepEqual(summaries([JSON.parse(one.data ?? '')]), [`create leads ${first} v1`]);
      const second = await make('leads', { last_name: 'Two' });
      const two = await nextChange(stream);
      assert.deepEqual(summaries([JSON.parse(two.data ?? '')]), [`create leads ${second} v1`]);
      const again = events(await open({ 'last-event-id': one.id ?? '' }));
      assert.deepEqual(JSON.parse((await nextChange(again)).data ?? ''), JSON.parse(two.data ?? ''));
      const silent = await next(stream);
      assert.equal(silent[''], 'heartbeat');
      assert.deepEqual((await read(`after=${silent.id}`)).changes, []);
      stop.abort();
    });

    test('a stream starts immediately, even if it has nothing to send', async () => {
      const headers = { authorization: `Bearer ${acme.key}` };
      // Heartbeats are sent every 10 s. The first arrives before an earlier 9 s wait has ended, unless the machine is
      // busy.
      await until(async () => {
        const stop = new AbortController();
        const isOver = waitInVain(`after=${await now()}&wait=9&resources=cases`, stop.signal);
        const stream = events(await streamOf('after=now&resources=accounts', stop.signal, headers));
        const { id, ...comment } = await next(stream);
        const isImmediate = !isOver();
        assert.deepEqual(comment, { '': 'heartbeat' });
        assert.deepEqual((await read(`after=${id}`)).changes, []);
        stop.abort();
        return isImmediate;
      }, 'start immediately');
    });

    test('streams and waits end when older cursors become invalid', async () => {
      const stop = new AbortController();
      const start = await now();
      const stream = events(
        await streamOf('after=now', stop.signal, { authorization: `Bearer ${acme.key}` }),
      );
      await next(stream);
      const waiting = get(`after=${start}&wait=20`);
      await untilWaiting(acme, 2);
      await tablesOf(instance().database).updateTable('crm_ledger_epochs').set({ source: 'moved' }).execute();
      await make('leads', { last_name: 'Of the new epoch' });
      assert.deepEqual(await restOf(stream), []);
      assert.equal((await waiting).json.code, 'cursor_expired');
    });

    test('streams and waits stay in the organization in which they started', async () => {
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
      await untilWaiting(from, 2);
      await tablesOf(instance().database)
        .updateTable('crm_memberships')
        .set({
          organization_id: to.id,
          profile_id: await profileId(tablesOf(instance().database), to.id, 'administrator'),
        })
        .where('user_id', '=', person.id)
        .execute();
      // Sessions are cached for less than a second.
      await pause(800);
      await make('leads', { last_name: 'Theirs' }, to.key);
      await make('leads', { last_name: 'Ours' }, from.key);
      assert.deepEqual(await restOf(stream), []);
      assert.equal((await waiting).json.code, 'not_a_member');
    });

    test('a stream continues if its caller can list more resources, and ends if the caller can list fewer', async () => {
      const tables = tablesOf(instance().database);
      const actor = command(instance());
      const grant = (object: string) => ({ object, actions: ['list'] });
      const name = fresh('profile');
      const profile = await createProfile(tables, actor, acme.id, name, [grant('leads')]);
      const { key } = await acme.makeKey({ profile: name });
      const stop = new AbortController();
      const stream = events(await streamOf('after=now', stop.signal, { authorization: `Bearer ${key}` }));
      await next(stream);
      await changeProfile(tables, actor, acme.id, profile, [grant('leads'), grant('accounts')]);
      let isGranted = false;
      const change = nextChange(stream).finally(() => {
        isGranted = true;
      });
      await until(async () => {
        await make('accounts', { name: 'Granted' });
        return isGranted;
      }, 'a change to an account');
      assert.equal((JSON.parse((await change).data ?? '') as Change).resource, 'accounts');
      await changeProfile(tables, actor, acme.id, profile, [grant('accounts')]);
      let isOver = false;
      const rest = restOf(stream).finally(() => {
        isOver = true;
      });
      await until(() => isOver, 'the stream to end');
      await rest;
    });

    test('a stream counts as one use of a session, however long it lasts', async () => {
      const stop = new AbortController();
      const person = await makePerson(instance(), [{ organization: acme }]);
      const { byCookie, session } = await logIn(instance(), person);
      const stream = events(await streamOf('after=now', stop.signal, byCookie));
      await next(stream);
      const used = instance().app.sessionLastUsed(session);
      await make('leads', { last_name: 'Shown' });
      await nextChange(stream);
      // Undefined if the use has been stored in the meantime.
      assert.ok([used, undefined].includes(instance().app.sessionLastUsed(session)));
      stop.abort();
    });

    test('a stalled reader does not delay shutdown', async () => {
      const other = await instance().organization(fresh('slow'));
      for (let count = 0; count < 12; count++)
        await make('leads', { last_name: 'Large', description: 'x'.repeat(900_000) }, other.key);
      const node = await secondNode(instance());
      const { hostname, port } = new URL(node.url);
      const socket = connect(Number(port), hostname);
      // The service closes the connection.
      socket.on('error', () => {});
      socket.write(
        `GET /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${other.key}\r\nAccept: text/event-stream\r\n\r\n`,
      );
      await once(socket, 'data');
      socket.pause();
      // Long enough for the kernel's buffers to fill up.
      await pause(1000);
      let isLate = false;
      const late = setTimeout(() => {
        isLate = true;
        socket.destroy();
      }, patienceMs);
      await node.close();
      clearTimeout(late);
      assert.ok(!isLate, 'shutdown does not wait for readers');
      socket.destroy();
    });

    test('returns 501 if changes are not recorded', async () => {
      const node = await secondNode(instance(), { audit: false });
      const answer = await node.call('GET /events', { key: acme.key });
      assert.deepEqual([answer.status, answer.json.code], [501, 'not_recorded']);
      assert.equal((await node.call('HEAD /events', { key: acme.key })).status, 501);
      await node.close();
    });

    // The embedded database has one connection.
    const whereSeveralConnect = driver === 'embedded' ? () => {} : test;
    whereSeveralConnect('holds back changes after a transaction in progress', async () => {
      const start = await now();
      const { database } = instance();
      let after = 0;
      await transaction(database, async (tables) => {
        await mayBeIdle(tables);
        const { rows } = await sql<{
          pid: number;
        }>`select pg_backend_pid() as pid, pg_current_xact_id()`.execute(tables);
        after = await make('leads', { last_name: 'After' });
        assert.deepEqual((await get(`after=${start}`)).json.data, []);
        // Transactions in the server's other databases can be older for a moment.
        await until(
          async () => (await findFeedBlocker(database)).pid === String(rows[0]?.pid),
          'it to be the oldest',
        );
      });
      await until(async () => (await read(`after=${start}`)).changes.length > 0, 'the change');
      assert.deepEqual(summaries((await read(`after=${start}`)).changes), [`create leads ${after} v1`]);
    });

    describe('a transaction for which the feed waits too long is logged', () => {
      /**
       * Checks the feed several times, and returns the logged lines.
       * @param isFailing called before each check, starting with 1; returns whether it fails
       */
      const linesOf = async (
        checks: number,
        isFailing: (check: number) => boolean | Promise<boolean> = () => false,
      ) => {
        const lines: { readonly msg: string; readonly pid?: unknown; readonly code?: unknown }[] = [];
        const write = (line: string) => lines.push(JSON.parse(line) as (typeof lines)[number]);
        const { database } = instance();
        let count = 0;
        const run: typeof database.run = async (...given) => {
          if (given[0].name !== 'ledger_lag') return database.run(...given);
          if (await isFailing(count + 1)) {
            count++;
            throw Object.assign(new Error('a secret of the driver'), { code: '57P01' });
          }
          const rows = await database.run(...given);
          count++;
          return rows;
        };
        const app = fastify({ logger: { level: 'warn', base: {}, stream: { write } } });
        const background = backgroundWork();
        app.decorate('background', background);
        watchFeed(app, { ...database, run }, true, 0);
        await app.ready();
        // A check that is requested while another one is running is skipped.
        await until(() => {
          background.run('the change feed');
          return count >= checks;
        }, `${checks} checks`);
        await app.close();
        return lines;
      };
      /** Returns the IDs of the server processes that were logged. */
      const logged = async (checks: number) => (await linesOf(checks)).map(({ pid }) => pid);

      whereSeveralConnect('once, with its server process', async () => {
        const { database } = instance();
        await transaction(database, async (tables) => {
          await mayBeIdle(tables);
          const { rows } = await sql<{
            pid: string;
          }>`select pg_backend_pid()::text as pid, pg_current_xact_id()`.execute(tables);
          const [{ pid } = assert.fail()] = rows;
          await until(async () => (await findFeedBlocker(database)).pid === pid, 'it to be the oldest');
          assert.deepEqual(await logged(3), [pid]);
        });
      });

      whereSeveralConnect('and so is the next one that the feed waits for', async () => {
        const { database } = instance();
        const idOfProcess = async (tables: Tables) => {
          await mayBeIdle(tables);
          const { rows } = await sql<{
            pid: string;
          }>`select pg_backend_pid()::text as pid, pg_current_xact_id()`.execute(tables);
          return rows[0]?.pid ?? assert.fail();
        };
        const isOldest = (pid: string) =>
          until(async () => (await findFeedBlocker(database)).pid === pid, 'it to be the oldest');
        const [opened, closing] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()];
        const first = transaction(database, async (tables) => {
          opened.resolve(await idOfProcess(tables));
          await closing.promise;
        });
        const pid = await opened.promise;
        try {
          await transaction(database, async (tables) => {
            const next = await idOfProcess(tables);
            await isOldest(pid);
            const lines = await linesOf(5, async (check) => {
              if (check !== 3) return false;
              closing.resolve();
              await first;
              await isOldest(next);
              return false;
            });
            assert.deepEqual(
              lines.map((line) => line.pid),
              [pid, next],
            );
          });
        } finally {
          closing.resolve();
          await first;
        }
      });

      test('but not the next one, which has not started', async () => {
        // Transactions in the server's other databases can be running.
        assert.deepEqual(
          (await logged(2)).filter((pid) => typeof pid !== 'string'),
          [],
        );
      });

      test('a failed check for such transactions is logged once until a check succeeds, without its message', async () => {
        const message = 'failed to check the change feed';
        const lines = await linesOf(5, (check) => check !== 3);
        assert.deepEqual(
          lines.filter(({ msg }) => msg === message).map(({ code }) => code),
          ['57P01', '57P01'],
        );
        assert.doesNotMatch(JSON.stringify(lines), /a secret/);
      });
    });

    describe('rejects cursors that could miss changes', () => {
      const assertExpired = async (cursor: string) => {
        const answer: Answer = await get(`after=${cursor}`);
        assert.equal(answer.status, 410, answer.text);
        assert.equal(answer.json.code, 'cursor_expired');
      };
      test('accepts the end of the feed, but nothing beyond it, as after lost transactions', async () => {
        const { read: placeOf, write } = feedCursors(
          feedSigning(instanceSecrets(instance().config)),
          acme.id,
        );
        const start = placeOf(await now()) ?? assert.fail('cannot read the cursor');
        const after = (transactions: bigint) =>
          write({ ...start, transaction: String(BigInt(start.transaction) + transactions) });
        assert.equal((await get(`after=${after(0n)}`)).status, 200);
        // Other transactions can start in the meantime, but not this many.
        await assertExpired(after(1_000_000_000n));
      });
      test('older than the retention period', async () => {
        const { database } = instance();
        await make('leads', { last_name: 'Old' });
        const start = await now();
        await tablesOf(database)
          .updateTable('crm_ledger')
          .set({ at: new Date(Date.now() - 40 * 86_400_000) })
          .execute();
        assert.ok((await changeLogRetention(tablesOf(database), 30)) > 0);
        const { read: placeOf, write } = feedCursors(
          feedSigning(instanceSecrets(instance().config)),
          acme.id,
        );
        const place = placeOf(start) ?? assert.fail('cannot read the cursor');
        const daysAgo = (days: number) => write({ ...place, at: Date.now() - days * 86_400_000 });
        assert.equal((await get(`after=${daysAgo(29)}`)).status, 200, 'it is more recent');
        await assertExpired(daysAgo(30));
      });
      test('but not others, if nothing is deleted or the retention period becomes longer', async () => {
        const { database } = instance();
        const tables = tablesOf(database);
        const prunedBefore = async () =>
          (
            await tables
              .selectFrom('crm_ledger_epochs')
              .select('pruned_before')
              .orderBy('id', 'desc')
              .executeTakeFirstOrThrow()
          ).pruned_before.getTime();
        const age = (days: number) =>
          tables
            .updateTable('crm_ledger')
            .set({ at: new Date(Date.now() - days * 86_400_000) })
            .execute();
        await make('leads', { last_name: 'Pruned' });
        await age(40);
        assert.ok((await changeLogRetention(tables, 30)) > 0);
        const latest = await prunedBefore();
        await make('leads', { last_name: 'Kept' });
        await age(10);
        assert.equal(await changeLogRetention(tables, 20), 0);
        assert.equal(await prunedBefore(), latest, 'nothing was deleted');
        await age(50);
        assert.ok((await changeLogRetention(tables, 40)) > 0);
        assert.equal(await prunedBefore(), latest, 'changes up to this time are missing');
      });
      test('but not cursors starting at the oldest stored change', async () => {
        const { database } = instance();
        const records = Array.from({ length: 600 }, () => ({ last_name: 'Oldest' }));
        await instance().call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
        const oldest = new Date(Date.now() - 30 * 86_400_000);
        await tablesOf(database).updateTable('crm_ledger').set({ at: oldest }).execute();
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ pruned_before: oldest }).execute();
        await caughtUp();
        const page = (await get('')).json as { data: unknown[]; next: string };
        assert.equal(page.data.length, 500);
        const { status } = await get(`after=${page.next}`);
        assert.equal(status, 200);
      });
      test('also for HEAD', async () => {
        const expired = await now();
        const statuses = async () => {
          const results: number[] = [];
          for (const query of ['after=now', 'after=x', `after=${expired}`])
            results.push((await instance().call(`HEAD /events?${query}`, { key: acme.key })).status);
          const nothing = await acme.keyWith([]);
          results.push((await instance().call('HEAD /events?resources=leads', { key: nothing })).status);
          return results;
        };
        assert.deepEqual(await statuses(), [200, 400, 200, 403]);
        const { database } = instance();
        await tablesOf(database)
          .updateTable('crm_ledger_epochs')
          .set({ pruned_before: new Date(Date.now() + 7_200_000) })
          .execute();
        assert.deepEqual(await statuses(), [200, 400, 410, 403]);
      });
      test('from another database', async () => {
        const { database } = instance();
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'elsewhere' }).execute();
        const start = await now();
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'restored' }).execute();
        await assertExpired(start);
        const id = await make('leads', { last_name: 'Kept' });
        // Simulates a change from a server with more completed transactions.
        await sql`update crm_ledger set transaction = '9000000000000000000' where object_id = ${id}`.execute(
          tablesOf(database),
        );
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'moved' }).execute();
        await ensureEpoch(database, true);
        assert.ok(summaries((await read('')).changes).includes(`create leads ${id} v1`));
        // A subscription starts at the end of the feed of this database.
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'moved back' }).execute();
        const body = { url: 'https://receiver.example/', resources: ['leads'] };
        const created = await instance().call('POST /events/subscriptions', { key: acme.key, body });
        assert.equal(created.status, 201, created.text);
        const path = `/events/subscriptions/${created.json.id}`;
        assert.equal((await instance().call(`DELETE ${path}`, { key: acme.key })).status, 200);
      });
      test('from the epoch that processes start together, once', async () => {
        const { database } = instance();
        const epochs = () => tablesOf(database).selectFrom('crm_ledger_epochs').select('epoch').execute();
        const { length } = await epochs();
        // The service itself can start the epoch, too.
        await tablesOf(database).updateTable('crm_ledger_epochs').set({ source: 'moved again' }).execute();
        await Promise.all([1, 2, 3, 4].map(() => ensureEpoch(database, true)));
        assert.equal((await epochs()).length, length + 1);
      });
      test('from before a period without recording', async () => {
        const start = await now();
        await ensureEpoch(instance().database, true);
        assert.equal((await get(`after=${start}`)).status, 200);
        await ensureEpoch(instance().database, false);
        await ensureEpoch(instance().database, false);
        await ensureEpoch(instance().database, true);
        await assertExpired(start);
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
    // Simulates constant writes that the reader did not request.
    wait: async () => pause(1),
    cursorOf: () => 'c',
    hold: () => () => {},
    heartbeatMs: 30,
  };

  test('sends heartbeats while only other callers have changes', async () => {
    const startedAt = performance.now();
    const texts = stream(empty, parts);
    for (let count = 0; count < 3; count++)
      assert.equal(String((await texts.next()).value), ': heartbeat\nid: c\n\n');
    assert.ok(performance.now() - startedAt >= 58);
  });

  test('counts the bytes that its reader has not received', async () => {
    let heldBytes = 0;
    const hold = (_organization: string, bytes: number) => {
      heldBytes += bytes;
      return () => {
        heldBytes -= bytes;
      };
    };
    const page = { ...empty, entries: [{ change: 'x'.repeat(40_000), position: place }] };
    const texts = stream(page, { ...parts, hold });
    await texts.next();
    assert.ok(heldBytes > 40_000);
    await texts.return(undefined);
    assert.equal(heldBytes, 0);
  });
});
