// Admission: which statements run, wait or are rejected, and in what order.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import {
  type Admission,
  type AdmissionLane,
  type AdmissionLimits,
  createAdmission,
} from '../../engine/database/admission.ts';
import type { Trace } from '../../engine/database/database.ts';
import { embeddedLimits, postgresLimits } from '../../engine/database/limits.ts';
import { RequestScope, runInRequest, slotState } from '../../engine/database/requests.ts';
import { HttpError } from '../../engine/errors.ts';
import { onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { partsOf } from '../support/scheduled.ts';

const records = { perOrganization: 2, total: 3 };
const scans = { perOrganization: 1, total: 2 };
const bounds: AdmissionLimits = {
  lanes: {
    'short read': [records],
    'short list': [scans],
    'short write': [scans],
    read: [records],
    write: [records, { perOrganization: 1, total: 2 }],
    batch: [records, { perOrganization: 1, total: 1 }],
    list: [scans],
    scan: [scans],
    aggregate: [scans],
    export: [scans],
    stream: [scans],
    module: [records],
    lookup: [scans],
  },
  queue: { perOrganization: 4, total: 6 },
  bytes: { perOrganization: 100, total: 150 },
  waitMs: 60_000,
};

/** Creates work that runs until the test ends it, and lists running work in the order in which it started. */
function works({ run }: Admission) {
  const started: { name: string; end: () => void }[] = [];
  const ask = (lane: Parameters<Admission['run']>[0], organization: string, name = organization) => {
    const asked = run(lane, organization, () => new Promise<void>((end) => started.push({ name, end })));
    // Work still waiting at the end of its test is rejected after a minute.
    asked.catch(() => {});
    return asked;
  };
  return {
    ask,
    names: () => started.map(({ name }) => name).join(' '),
    /** Ends the work at this index and lets the work waiting for it start. */
    end: async (index: number) => {
      started[index]?.end();
      await new Promise(setImmediate);
    },
  };
}

const overloaded = (error: unknown) =>
  error instanceof HttpError && error.status === 503 && error.code === 'overloaded';

type Capacity = readonly [ofOrganization: number, ofAll: number];

/** The numbers of statements that run at the same time in each lane, by the number of connections. */
const capacities: Readonly<Record<number, Readonly<Partial<Record<AdmissionLane, Capacity>>>>> = {
  3: {
    read: [1, 1],
    write: [1, 1],
    batch: [1, 1],
    export: [1, 1],
    list: [1, 1],
    scan: [1, 1],
    lookup: [1, 1],
  },
  5: {
    read: [1, 2],
    write: [1, 1],
    batch: [1, 1],
    export: [1, 2],
    list: [1, 2],
    scan: [1, 1],
    lookup: [1, 1],
  },
  16: {
    ...{ read: [7, 8], write: [4, 7], module: [4, 7], batch: [1, 2], export: [1, 2], lookup: [2, 2] },
    ...{ list: [5, 6], scan: [1, 3], aggregate: [1, 2] },
    ...{ 'short read': [64, 256], 'short list': [4, 16], 'short write': [32, 256], stream: [2, 8] },
  },
  64: {
    ...{ read: [36, 37], write: [18, 36], module: [18, 36], batch: [1, 12], export: [1, 2], lookup: [2, 2] },
    ...{ list: [24, 25], scan: [2, 4], aggregate: [1, 2] },
  },
};

describe('the limits of a service', () => {
  for (const [pool, lanes] of Object.entries(capacities))
    test(`${pool} connections: the numbers of statements of one organization and of all`, () => {
      const config = { ...readConfig({ DATABASE_URL: 'postgres://127.0.0.1/crm' }), pool: Number(pool) };
      const found = Object.keys(lanes).map((lane) => {
        const admission = createAdmission(postgresLimits(config));
        const { ask, names } = works(admission);
        const running = () => names().split(' ').length;
        const askAll = (organization: string) => {
          for (let count = 0; count < 70; count++) ask(lane as AdmissionLane, organization);
        };
        askAll('greedy');
        const greedy = running();
        for (let index = 0; index < 20; index++) askAll(`o${index}`);
        return [lane, [greedy, running()]];
      });
      assert.deepEqual(Object.fromEntries(found), lanes);
    });

  for (const pool of [8, 20, 32, 64]) {
    const config = { ...readConfig({ DATABASE_URL: 'postgres://127.0.0.1/crm' }), pool };
    const organizations = Array.from({ length: 20 }, (_, index) => `o${index}`);
    for (const lane of [
      ...(['batch', 'export', 'scan', 'aggregate', 'list', 'write', 'module', 'read'] as const),
      ...(['short read', 'short list', 'short write'] as const),
    ]) {
      test(`${pool} connections: leaves room for others, however many ${lane} statements wait`, () => {
        const { ask, names } = works(createAdmission(postgresLimits(config)));
        const running = (name: string) =>
          names()
            .split(' ')
            .filter((each) => each === name).length;
        for (let count = 0; count < Math.max(pool, 100); count++) ask(lane, 'greedy');
        const most = { 'short read': 64, 'short list': 4, 'short write': 32 };
        const greedy = { batch: 1, export: 1, aggregate: 1, ...most }[lane as string];
        if (greedy !== undefined) assert.equal(running('greedy'), greedy);
        ask(lane, 'modest');
        const hasOne = pool === 8 && ['batch', 'scan', 'aggregate'].includes(lane);
        assert.equal(running('modest'), hasOne ? 0 : 1);
        // Batches, which are slow, never occupy all connections for writes, and writes never occupy all
        // connections for reads.
        for (const each of organizations) ask(lane, each);
        if (lane === 'batch') {
          ask('write', 'writer');
          assert.equal(running('writer'), 1);
        }
        if (lane !== 'read' && lane !== 'list' && lane !== 'scan') {
          ask('read', 'reader');
          assert.equal(running('reader'), 1);
        }
        if (lane !== 'list') {
          ask('list', 'lister');
          assert.equal(running('lister'), 1);
        }
        // No organization can prevent others from logging in.
        for (let count = 0; count < 3; count++) ask('lookup', 'lookup');
        assert.equal(running('lookup'), 2);
      });
    }
  }

  const megabyte = 1024 * 1024;
  for (const [database, limits] of [
    ['PostgreSQL', postgresLimits],
    ['embedded database', embeddedLimits],
  ] as const) {
    for (const { workers, bytes, streams, queue, reads: shortReads, lists, writes } of [
      {
        workers: 1,
        bytes: { perOrganization: 4 * megabyte, total: 8 * megabyte },
        streams: { perOrganization: 2, total: 8 },
        reads: { perOrganization: 64, total: 256 },
        lists: { perOrganization: 4, total: 16 },
        writes: { perOrganization: 32, total: 256 },
        queue: { perOrganization: 1000, total: 4000 },
      },
      {
        workers: 4,
        bytes: { perOrganization: megabyte, total: 2 * megabyte },
        streams: { perOrganization: 1, total: 2 },
        reads: { perOrganization: 16, total: 64 },
        lists: { perOrganization: 1, total: 4 },
        writes: { perOrganization: 8, total: 64 },
        queue: { perOrganization: 250, total: 1000 },
      },
    ]) {
      const name = `${database}, ${workers} ${workers === 1 ? 'worker' : 'workers'}`;
      const config = {
        ...readConfig({ ...patient, DATABASE_URL: 'postgres://127.0.0.1/crm', RESPONSE_BUFFER_MB: '8' }),
        workers,
      };

      test(`${name}: one organization can fill half of the response buffer, and all of them the whole`, async () => {
        const admission = createAdmission(limits(config));
        /** Returns whether an organization's statement runs, and ends it. */
        const runs = (organization: string) => {
          let hasStarted = false;
          const run = admission.run('read', organization, async () => {
            hasStarted = true;
          });
          const outcome = hasStarted;
          return run.then(
            () => outcome,
            () => outcome,
          );
        };
        admission.hold('greedy', bytes.perOrganization - 1);
        assert.ok(await runs('greedy'), 'below its limit');
        const last = admission.hold('greedy', 1);
        const blocked = runs('greedy');
        assert.ok(await runs('modest'), 'an organization without unread responses');
        admission.hold('modest', 1);
        assert.ok(await runs('modest'), 'an organization with a small unread response');
        admission.hold('others', bytes.total - bytes.perOrganization - 1);
        const held = runs('modest');
        last();
        assert.ok(!(await blocked), 'at its limit');
        assert.ok(!(await held), 'all of them have reached their limit');
        assert.ok(await runs('modest'));
      });

      test(`${name}: one organization can run a part of the exports and imports, and fill a part of the queue`, async () => {
        const admission = createAdmission(limits(config));
        const { ask, names } = works(admission);
        const others = Array.from({ length: streams.total }, (_, index) => `o${index}`);
        for (const organization of ['greedy', ...others]) {
          for (let count = 0; count <= streams.perOrganization; count++) ask('stream', organization);
        }
        const running = names().split(' ');
        assert.equal(running.filter((each) => each === 'greedy').length, streams.perOrganization);
        assert.equal(running.length, streams.total);

        // Statements wait because of unread responses.
        for (const organization of ['greedy', 'a', 'b', 'c', 'late'])
          admission.hold(organization, bytes.total);
        const reads = () => admission.load().lanes.find(({ lane }) => lane === 'read');
        for (const [index, organization] of ['greedy', 'a', 'b', 'c'].entries()) {
          for (let count = 0; count <= queue.perOrganization; count++) ask('read', organization);
          const waiting = (index + 1) * queue.perOrganization;
          assert.deepEqual([reads()?.waiting, reads()?.queueFull], [waiting, index + 1]);
        }
        ask('read', 'late');
        assert.deepEqual([reads()?.waiting, reads()?.queueFull], [queue.total, 5]);
      });

      if (database === 'PostgreSQL')
        test(`${name}: one organization can send a part of the short statements`, () => {
          for (const [lane, limit] of [
            ['short read', shortReads],
            ['short list', lists],
            ['short write', writes],
          ] as const) {
            const { ask, names } = works(createAdmission(limits(config)));
            const running = () => names().split(' ').length;
            for (let count = 0; count <= limit.perOrganization; count++) ask(lane, 'greedy');
            assert.equal(running(), limit.perOrganization, lane);
            for (let index = 0; index <= limit.total; index++) ask(lane, `o${index}`);
            assert.equal(running(), limit.total, lane);
          }
        });
    }
  }
});

test('the embedded database runs one statement at a time, besides exports and imports', async () => {
  const { ask, names, end } = works(createAdmission(embeddedLimits(readConfig({}))));
  ask('stream', 'a', 'export');
  ask('list', 'a', 'list');
  ask('read', 'b', 'read');
  ask('stream', 'b', 'import');
  ask('lookup', '', 'lookup');
  assert.equal(names(), 'export list import');
  await end(1);
  assert.equal(names(), 'export list import read');
  await end(3);
  assert.equal(names(), 'export list import read lookup');
});

test('the page of an organization does not wait behind its writes', async () => {
  const config = readConfig({ DATABASE_URL: 'postgres://127.0.0.1/crm' });
  const { ask, names, end } = works(createAdmission(postgresLimits(config)));
  for (let count = 0; count < 100; count++) ask('write', '1', 'write');
  ask('module', '1', 'page');
  assert.ok(!names().includes('page'), names());
  for (const index of [0, 1]) await end(index);
  assert.ok(names().includes('page'), names());
});

describe('admission', () => {
  test('gives work a slot for its statements, except for a stream, whose statements need their own', async () => {
    const { run } = createAdmission(bounds);
    const scope = new RequestScope(() => 'a');
    const stateIn = (lane: AdmissionLane) =>
      runInRequest(scope, () => run(lane, 'a', async () => slotState()));
    for (const lane of Object.keys(bounds.lanes) as AdmissionLane[])
      assert.equal(await stateIn(lane), lane === 'stream' ? 'needed' : 'held', lane);
    assert.equal(await run('read', 'a', async () => slotState()), 'none');
  });

  test("reserves capacity beyond one organization's limit for others", async () => {
    const { ask, names } = works(createAdmission(bounds));
    for (let count = 0; count < 4; count++) ask('read', 'a');
    assert.equal(names(), 'a a');
    ask('read', 'b');
    assert.equal(names(), 'a a b');
  });

  test('alternates between organizations, however many requests one of them sends', async () => {
    const { ask, names, end } = works(createAdmission(bounds));
    for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) ask('read', 'a', name);
    for (const name of ['b1', 'b2', 'b3']) ask('read', 'b', name);
    ask('read', 'c', 'c1');
    for (let index = 0; index < 6; index++) await end(index);
    assert.equal(names(), 'a1 a2 b1 a3 b2 c1 a4 b3 a5');
  });

  test('leaves room for reads while writes wait, and for writes while reads wait', async () => {
    const { ask, names, end } = works(createAdmission(bounds));
    for (const organization of ['a', 'b', 'c']) ask('write', organization, `${organization}-write`);
    ask('read', 'd', 'd-read');
    assert.equal(names(), 'a-write b-write d-read');
    for (const name of ['d2', 'd3']) ask('read', 'd', name);
    await end(0);
    await end(2);
    assert.match(names(), /c-write/);
  });

  test('does not block lanes without a common limit', async () => {
    const { ask, names } = works(createAdmission(bounds));
    for (const organization of ['a', 'b', 'c']) ask('scan', organization, `${organization}-scan`);
    ask('read', 'a');
    assert.equal(names(), 'a-scan b-scan a');
  });

  test('rejects immediately when the queue of one organization or of all is full', async () => {
    const { ask, names, end } = works(createAdmission(bounds));
    for (let count = 0; count < 6; count++) ask('read', 'a');
    await assert.rejects(ask('read', 'a'), overloaded);
    for (const name of ['b1', 'b2', 'b3']) ask('read', 'b', name);
    await assert.rejects(ask('read', 'c'), overloaded);
    for (let index = 0; index < 9; index++) await end(index);
    assert.equal(names().split(' ').length, 9, 'all accepted statements have run');
    ask('read', 'c');
    assert.match(names(), /c$/);
  });

  test('reports how many statements are waiting, and how many of their organizations have reached their own limit', async () => {
    const admission = createAdmission(bounds);
    const { ask, end } = works(admission);
    const load = () => admission.load().lanes.find(({ lane }) => lane === 'read');
    for (const organization of ['a', 'a', 'a', 'a', 'b', 'b']) ask('read', organization);
    const full = { lane: 'read', limit: 3, queueFull: 0, timedOut: 0 };
    assert.deepEqual(load(), {
      ...full,
      ...{ running: 3, waiting: 3, organizations: 2, limited: 1, longestQueue: 2 },
    });
    await end(0);
    await end(1);
    // The last statement waits because of the limit of all organizations.
    assert.deepEqual(load(), {
      ...full,
      ...{ running: 3, waiting: 1, organizations: 1, limited: 0, longestQueue: 1 },
    });
    admission.hold('a', bounds.bytes.perOrganization);
    assert.equal(load()?.limited, 1, 'its unread responses have reached their limit');
    const { lanes } = admission.load();
    assert.equal(lanes.find(({ lane }) => lane === 'write')?.limit, 2, 'the lowest of several limits');
  });

  test('rejects a statement that waited too long and does not run it later', async () => {
    const { ask, names, end } = works(createAdmission({ ...bounds, waitMs: 20 }));
    for (const name of ['a1', 'a2']) ask('read', 'a', name);
    await assert.rejects(ask('read', 'a', 'late'), overloaded);
    await end(0);
    await end(1);
    ask('read', 'a', 'a3');
    assert.equal(names(), 'a1 a2 a3');
  });

  test('restarts an expired wait if this process was blocked', async () => {
    const admission = createAdmission({ ...bounds, waitMs: 50 });
    const { ask, names, end } = works(admission);
    ask('write', 'a', 'a1');
    const second = ask('write', 'a', 'a2');
    const third = ask('write', 'a', 'a3');
    // Blocks this process.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    await new Promise((resolve) => setTimeout(resolve, 0));
    await end(0);
    assert.equal(names(), 'a1 a2');
    // Its wait starts later than the wait of the started statement, so it also expires later.
    await assert.rejects(third, overloaded);
    const { waiting, timedOut } =
      admission.load().lanes.find(({ lane }) => lane === 'write') ?? assert.fail();
    assert.deepEqual({ waiting, timedOut }, { waiting: 0, timedOut: 1 }, 'the started one is not counted');
    await end(1);
    await second;
  });

  test('releases the slot of failed work', async () => {
    const made = createAdmission(bounds);
    for (let count = 0; count < 5; count++) {
      const failing = made.run('read', 'a', () => Promise.reject(new Error('on purpose')));
      await assert.rejects(failing, /on purpose/);
    }
    const { ask, names } = works(made);
    for (let count = 0; count < 3; count++) ask('read', 'a');
    assert.equal(names(), 'a a');
  });

  test("holds back an organization's statements while its responses are unread", async () => {
    const made = createAdmission(bounds);
    const { ask, names, end } = works(made);
    const release = made.hold('a', 100);
    ask('read', 'a');
    assert.equal(names(), '', 'a has reached its limit');
    ask('read', 'b', 'b1');
    made.hold('b', 60);
    ask('read', 'b', 'b2');
    assert.equal(names(), 'b1', 'all together have reached their limit');
    ask('read', 'c');
    assert.equal(names(), 'b1 c', 'an organization without unread responses continues');
    release();
    release();
    assert.equal(made.load().bytes, 60, 'each hold ends once');
    await new Promise(setImmediate);
    assert.equal(names(), 'b1 c a', 'a continues although no other statement has ended');
    await end(0);
    assert.equal(names(), 'b1 c a b2', 'both continue');
  });

  test('forgets a waiting read whose client disconnects, but runs a waiting write', async () => {
    const made = createAdmission(bounds);
    const { ask, names, end } = works(made);
    const scope = new RequestScope(() => 'a');
    const askFor = (lane: Parameters<typeof ask>[0], name: string) =>
      runInRequest(scope, () => ask(lane, 'a', name));
    const incomplete = (error: unknown) => error instanceof HttpError && error.status === 400;
    for (const name of ['a1', 'a2']) ask('read', 'a', name);
    const read = assert.rejects(askFor('read', 'read'), incomplete);
    askFor('write', 'write');
    ask('read', 'a', 'other');
    scope.disconnect();
    await read;
    const { lanes } = made.load();
    assert.deepEqual(
      lanes.filter(({ waiting }) => waiting > 0).map(({ lane, waiting }) => [lane, waiting]),
      [
        ['read', 1],
        ['write', 1],
      ],
    );
    await assert.rejects(askFor('read', 'late'), incomplete);
    for (let index = 0; index < 4; index++) await end(index);
    assert.deepEqual(names().split(' ').sort(), ['a1', 'a2', 'other', 'write']);
    assert.ok(
      made.load().lanes.every(({ running, waiting }) => running === 0 && waiting === 0),
      'all slots are free',
    );
  });

  test('cancels every kind of waiting read when its client disconnects', async () => {
    const admission = createAdmission(bounds);
    const release = admission.hold('a', bounds.bytes.perOrganization);
    const client = new RequestScope(() => 'a');
    const lanes = Object.keys(bounds.lanes) as (keyof AdmissionLimits['lanes'])[];
    const outcomes = lanes.map(async (lane) => {
      const run = runInRequest(client, () => admission.run(lane, 'a', async () => 'run'));
      return [lane, await run.catch(({ status }: HttpError) => status)] as const;
    });
    client.disconnect();
    release();
    const cancelled = (await Promise.all(outcomes)).filter(([, outcome]) => outcome === 400);
    assert.deepEqual(
      cancelled.map(([lane]) => lane),
      ['short read', 'short list', 'read', 'list', 'scan', 'aggregate', 'export'],
    );
  });

  describe('counts a statement out of its queue once', () => {
    /** Long enough to start waiting work in a test, and short enough to wait for. */
    const waitMs = 50;
    /**
     * Returns an admission in which a read of a client waits behind two others.
     * @returns also the functions to act on it
     */
    function waitingRead() {
      const admission = createAdmission({ ...bounds, waitMs });
      const { ask, names, end } = works(admission);
      const client = new RequestScope(() => 'a');
      for (const name of ['a1', 'a2']) ask('read', 'a', name);
      const read = runInRequest(client, () => ask('read', 'a', 'read'));
      const load = () => {
        const { waiting, longestQueue, timedOut } =
          admission.load().lanes.find(({ lane }) => lane === 'read') ?? assert.fail();
        return { waiting, longestQueue, timedOut };
      };
      return { ask, names, end, client, read, load };
    }

    test('if its client disconnects after it has started', async () => {
      const { ask, names, end, client, load } = waitingRead();
      await end(0);
      assert.equal(names(), 'a1 a2 read');
      const other = ask('read', 'a', 'other');
      client.disconnect();
      assert.deepEqual(load(), { waiting: 1, longestQueue: 1, timedOut: 0 });
      await end(1);
      await end(2);
      await end(3);
      await other;
      assert.equal(names(), 'a1 a2 read other');
      assert.deepEqual(load(), { waiting: 0, longestQueue: 0, timedOut: 0 });
    });

    test('if its client disconnects after it was rejected', async () => {
      const { ask, names, end, client, read, load } = waitingRead();
      await assert.rejects(read, overloaded);
      const other = ask('read', 'a', 'other');
      client.disconnect();
      assert.deepEqual(load(), { waiting: 1, longestQueue: 1, timedOut: 1 });
      await end(0);
      await end(2);
      await other;
      assert.equal(names(), 'a1 a2 other');
    });

    for (const [event, leave] of [
      ['started', ({ end }) => end(0)],
      [
        'been cancelled',
        async ({ client, read }) => {
          client.disconnect();
          await assert.rejects(read, { status: 400 });
        },
      ],
    ] as const satisfies readonly (readonly [
      string,
      (waiting: ReturnType<typeof waitingRead>) => Promise<void>,
    ])[]) {
      test(`if its wait would have expired after it has ${event}`, async () => {
        const waiting = waitingRead();
        await leave(waiting);
        // Its wait starts later, so it also expires later.
        await assert.rejects(waiting.ask('read', 'a', 'other'), overloaded);
        assert.deepEqual(waiting.load(), { waiting: 0, longestQueue: 0, timedOut: 1 });
      });
    }
  });
});

onBothDrivers(
  'admission before a database',
  (instance) => {
    test('a transaction that is rolled back takes no other write with it', async () => {
      const { database } = instance();
      const { id: organization } = await instance().organization('acme');
      const insert = (name: string) => ({
        ...{ name: '', lane: 'write' as const },
        text: `insert into accounts (organization_id, name, created_at, updated_at) values (${organization}, '${name}', now(), now())`,
        values: [],
      });
      let other: Promise<unknown> | undefined;
      const work = database.atomically(
        async (run) => {
          await run(insert('inside'));
          // Without a context, a write needs no slot. It starts, or waits for the connection.
          other = database.run(insert('outside'));
          await new Promise(setImmediate);
          await run(insert('inside, too'));
          throw new Error('on purpose');
        },
        { organization, access: 'write', lane: 'batch' },
      );
      await assert.rejects(work, /on purpose/);
      await other;
      const rows = await database.run({ name: '', text: 'select name from accounts', values: [] });
      assert.deepEqual(rows, [['outside']]);
    });

    test('traces the first hundred statements of a request, and the duration of all', async () => {
      const { database } = instance();
      const { id: organization } = await instance().organization('traced');
      const trace: Trace = { lane: undefined, statementMs: 0, statements: [] };
      const select = { name: '', lane: 'list' as const, text: 'select 1', values: [] };
      for (let count = 0; count < 100; count++)
        await database.run(select, { organization, access: 'read', trace });
      assert.equal(trace.statements?.length, 100);
      const { statementMs } = trace;
      await database.run({ ...select, lane: 'scan' }, { organization, access: 'read', trace });
      assert.deepEqual([trace.statements?.length, trace.lane], [100, 'scan']);
      assert.ok(trace.statementMs > statementMs);
    });

    test("runs a second organization's statement among the first, behind fifty of another", async () => {
      const { database } = instance();
      const { admission } = partsOf(database);
      const order: string[] = [];
      const statement = { name: '', text: 'select pg_sleep(0.001)::text', values: [] };
      const ask = (organization: string) =>
        admission.run('read', organization, async () => {
          order.push(organization);
          await database.run(statement);
        });
      const all = [...Array.from({ length: 50 }, () => ask('1')), ask('2')];
      await until(() => order.includes('2'), 'the second organization to run');
      assert.ok(order.indexOf('2') < 6, order.join(' '));
      await Promise.all(all);
      assert.equal(order.length, 51);
    });
  },
  { environment: { DATABASE_POOL: '10' } },
);
