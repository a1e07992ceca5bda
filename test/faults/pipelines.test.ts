// Statements that share a connection: whatever happens to some of them, every caller receives the result of
// its own statement.
// PIPELINE_ANSWERS=100000 node test/run.ts test/faults/pipelines.test.ts
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Server, SharedConnections } from '../../engine/database/database.ts';
import { statementsPerConnection } from '../../engine/database/named-statements.ts';
import { verbatim } from '../../engine/fields/index.ts';
import { inputIndex, inputs, prepare } from '../../engine/sql/index.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { partsOf } from '../support/scheduled.ts';

const answers = Number(process.env.PIPELINE_ANSWERS ?? 3000);
const clients = 48;
const perOrganization = 30;

/** Returns a statement in the lane `read`. */
const short = (name: string, text: string, ...values: string[]) =>
  ({ lane: 'read', name, text, values }) as const;
const echo = (value: string) => short('echo', 'select $1::text', value);

describe('statements that share a connection', () => {
  let instance: Instance;
  let url: string;
  let pipelines: SharedConnections;
  const organizations: (Organization & { readonly ids: readonly string[] })[] = [];

  before(async () => {
    instance = await startInstance('postgresql');
    url = String(instance.config.environment.DATABASE_URL);
    const { primary } = partsOf(instance.database);
    assert.ok(primary.pipelines);
    pipelines = primary.pipelines;
    for (const slug of ['one', 'two', 'three', 'four']) {
      const organization = await instance.organization(slug);
      const ids = await connected(url, async (client) => {
        const { rows } = await client.query<{ id: string }>(
          `insert into leads (organization_id, created_at, updated_at, last_name, description)
            select $1, now(), now(), $2 || '-' || n, repeat('x', n * 50) from generate_series(1, $3) n returning id::text`,
          [organization.id, slug, perOrganization],
        );
        return rows.map(({ id }) => id);
      });
      organizations.push({ ...organization, ids });
    }
  });
  after(() => instance.close());

  const run = (statement: ReturnType<typeof short>) => pipelines.run(statement, '1');
  // On a busy machine, any statement can be late, in which case it runs in the pool, and a connection can be
  // given up. The tests assert conditions that must always hold, and retry if a condition requires the
  // initial connections.
  const isReady = async () => (await run(echo('ready')))?.[0]?.[0] === 'ready';
  const ready = () => until(isReady, 'a connection');
  const administrate = (text: string, values: unknown[] = []) =>
    connected(url, (client) => client.query(text, values));
  /** Runs the same statements on both connections. In the second turn, the first connection is still busy. */
  async function onBoth(statements: readonly ReturnType<typeof short>[]) {
    const asked = statements.map(run);
    await turn();
    return Promise.all([...asked, ...statements.map(run)]);
  }
  /** Returns the process IDs of the server processes for the shared connections. */
  async function backends(): Promise<string[]> {
    const found = await onBoth(
      Array.from({ length: 10 }, () => short('pid', 'select pg_backend_pid()::text')),
    );
    const ids = found.map((rows) => rows?.[0]?.[0]).filter((id) => id !== undefined);
    return [...new Set(ids.map(String))].sort();
  }
  const bothReady = () => until(async () => (await backends()).length === 2, 'both connections');

  test('what is sent together comes back in order, on few connections, rows and no rows', async () => {
    await bothReady();
    await until(async () => {
      const asked: ReturnType<typeof run>[] = [];
      for (let index = 0; index < 3000; index++) {
        asked.push(run(echo(String(index))));
        // Statements sent in the next tick use the other connection.
        if (index % 100 === 99) await turn();
      }
      const results = await Promise.all(asked);
      for (const [index, rows] of results.entries())
        if (rows !== undefined) assert.deepEqual(rows, [[String(index)]]);
      return !results.includes(undefined);
    }, 'answer all of them');
    assert.deepEqual(await run(short('none', 'select $1::text where false', 'x')), []);
    assert.deepEqual(await run(short('series', 'select n::text, null from generate_series(1, 2) n')), [
      ['1', null],
      ['2', null],
    ]);
  });

  test('one that fails, when it is prepared or when it runs, takes no other with it', async () => {
    const kinds = [
      (index: number) => echo(String(index)),
      (index: number) => short('divides', 'select (1 / ($1::int - $1::int))::text', String(index)),
      (index: number) => short(`broken ${index % 7}`, `select nothing_of_the_kind_${index % 7}`),
    ];
    await until(async () => {
      await bothReady();
      const before = await backends();
      const results = await Promise.all(
        Array.from({ length: 300 }, (_, index) => run(kinds[index % 3]?.(index) ?? echo(''))),
      );
      for (const [index, rows] of results.entries())
        if (rows !== undefined) assert.deepEqual([index % 3, rows], [0, [[String(index)]]]);
      const isAnswered = results.every((rows, index) => index % 3 > 0 || rows !== undefined);
      return isAnswered && before.length === 2 && isDeepStrictEqual(await backends(), before);
    }, 'answer the others on the same connections');
  });

  test('one that is slow delays others for a moment only, and is not taken again for a while', async () => {
    const echoes = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, index) => run(echo(String(from + index))));
    let tries = 0;
    let slow = echo('');
    await until(async () => {
      await bothReady();
      slow = short(`sleeps ${++tries}`, 'select pg_sleep(30)::text');
      const asked = [pipelines.run(slow, `slow ${tries}`), ...echoes(0, 50)];
      await turn();
      const [first, ...others] = await Promise.all([...asked, ...echoes(50, 110)]);
      // If the slow statement had been completed, it would have returned a row.
      assert.equal(first, undefined);
      for (const [index, rows] of others.entries())
        assert.ok(rows === undefined || rows[0]?.[0] === String(index));
      const isAvoided =
        pipelines.laneOf(slow, '2') === undefined &&
        pipelines.laneOf(echo(''), `slow ${tries}`) === undefined;
      return isAvoided && others.filter((rows) => rows !== undefined).length >= 50;
    }, 'answer those on the other connection, and avoid the slow one');
    await until(() => pipelines.laneOf(slow, '2') === 'short read', 'take it again');
  });

  test('what waits behind a late statement goes to the pool, and its connection is given up', async () => {
    await bothReady();
    const sleeps = (index: number) => short(`sleeps behind ${index}`, 'select pg_sleep(30)::text');
    // Statements sent in one turn share a connection. If the connection had been kept, each statement would
    // run until it is late, and the last one would return a row.
    const [first, ...others] = await Promise.all([
      run(short('pid', 'select pg_backend_pid()::text')),
      ...Array.from({ length: 4 }, (_, index) => run(sleeps(index))),
      run(echo('behind')),
    ]);
    assert.deepEqual(others, Array(5).fill(undefined));
    const pid = String(first?.[0]?.[0]);
    await until(async () => {
      const found = await backends();
      return found.length === 2 && !found.includes(pid);
    }, 'have another connection instead');
    // A late statement with no others behind it does not affect other organizations, so its connection is
    // kept.
    let tries = 4;
    await until(async () => {
      await bothReady();
      const kept = await backends();
      assert.equal(await run(sleeps(++tries)), undefined);
      return kept.length === 2 && isDeepStrictEqual(await backends(), kept);
    }, 'keep the connection');
  });

  describe('one that takes long, but not too long', () => {
    /**
     * Returns a statement that runs until the test releases the lock. The connections do not have timeouts.
     */
    const lasting = (name: string, lock: number) =>
      short(name, 'select pg_advisory_lock_shared($1::int)::text', String(lock));
    async function withLocked(work: (unlock: () => Promise<unknown>, lock: number) => Promise<boolean>) {
      await bothReady();
      const patient = short('patient', `select set_config('statement_timeout', '0', false)`);
      await onBoth([patient, short('waits', `select set_config('lock_timeout', '0', false)`)]);
      const lock = 4711;
      return connected(url, async (client) => {
        await client.query('select pg_advisory_lock($1)', [lock]);
        try {
          return await work(() => client.query('select pg_advisory_unlock_all()'), lock);
        } finally {
          pipelines.renew();
        }
      });
    }
    const isRow = (rows: unknown, value: string) => {
      if (rows !== undefined) assert.deepEqual(rows, [[value]]);
      return rows !== undefined;
    };
    const isFree = () => pipelines.laneOf(echo(''), '2') === 'short read';

    test('others do not wait behind it, its organization goes to the pool', () =>
      until(
        () =>
          withLocked(async (unlock, lock) => {
            const running = pipelines.run(lasting('lasts', lock), 'lasting');
            await until(
              () => pipelines.laneOf(echo(''), 'lasting') === undefined,
              'its organization to be left to the pool',
            );
            const others = await Promise.all(['a', 'b', 'c'].map((value) => pipelines.run(echo(value), '2')));
            const onTheOther = others.map((rows, index) => isRow(rows, 'abc'.charAt(index)));
            await unlock();
            const isKept = isRow(await running, '');
            await until(isFree, 'a connection to be free');
            await until(
              () => pipelines.laneOf(echo(''), 'lasting') === 'short read',
              'its organization to be back',
            );
            return isKept && onTheOther.every(Boolean);
          }),
        'answer all of them',
      ));

    test('gives up its connections for a while when it has to, but none that is in use', () =>
      until(
        () =>
          withLocked(async (unlock, lock) => {
            const running = pipelines.run(lasting('kept', lock), 'kept');
            await turn();
            const start = performance.now();
            // On a slow machine, the time can be over before the next check.
            const assertNotFree = () => assert.ok(!isFree() || performance.now() - start >= 1500);
            pipelines.yieldFor(1000);
            assertNotFree();
            pipelines.yieldFor(1500);
            await until(() => {
              const { inUse, idle } = pipelines.load();
              return inUse <= 1 && idle === 0;
            }, 'idle connections to close');
            assertNotFree();
            await unlock();
            const isKept = isRow(await running, '');
            await until(isFree, 'a connection to be opened');
            const elapsed = performance.now() - start;
            assert.ok(elapsed >= 1500, `${elapsed} ms`);
            return isKept;
          }),
        'answer the one in use',
      ));

    test('with one on each connection, others go to the pool', () =>
      until(
        () =>
          withLocked(async (unlock, lock) => {
            const slow = [pipelines.run(lasting('first', lock), 'first')];
            const behind = run(echo('behind'));
            await turn();
            slow.push(pipelines.run(lasting('second', lock), 'second'));
            await until(() => !isFree(), 'no connection to be free');
            await unlock();
            const areKept = (await Promise.all(slow)).map((rows) => isRow(rows, ''));
            const isAnswered = isRow(await behind, 'behind');
            await until(isFree, 'a connection to be free');
            return isAnswered && areKept.every(Boolean);
          }),
        'answer all of them',
      ));
  });

  test('a result that others would have to wait for: its organization goes to the pool for a while', async () => {
    await ready();
    const many = `select repeat('x', 20000) from generate_series(1, $1::int)`;
    for (const [organization, statement, size] of [
      ['large', short('long', `select repeat('x', $1::int)`, '300000'), 300_000],
      ['many', short('many', many, '20'), 20 * 20_000],
    ] as const) {
      const sizeOf = async () => (await pipelines.run(statement, organization))?.flat().join('').length;
      await until(
        async () => (await sizeOf()) === size && pipelines.laneOf(echo(''), organization) === undefined,
        `the result of ${organization}, which is then left to the pool`,
      );
    }
    // On a busy machine, this statement can be slow too, in which case it is retried.
    await until(async () => {
      const rows = await pipelines.run(short('many', many, '10'), 'small');
      return rows?.length === 10 && pipelines.laneOf(echo(''), 'small') === 'short read';
    }, 'a smaller result to change nothing');
  });

  test('a large record among the reads of others: only its organization goes to the pool, longer each time', async () => {
    await ready();
    const sized = (size: number) => ({
      ...short('sized', `select repeat('x', $1::int)`, String(size)),
      many: {
        name: 'sized_many',
        text: `select _i.number::text, repeat('x', _i.size::int) from unnest($1::text[]) with ordinality _i(size, number)`,
        differ: 0,
        lists: false,
      },
    });
    const large = 'large among others';
    const ask = async () => {
      const sizes = Array.from({ length: 30 }, (_, index) => (index === 7 ? 400_000 : index));
      const asked = sizes.map((size, index) =>
        pipelines.run(sized(size), index === 7 ? large : `small ${index}`),
      );
      return (await Promise.all(asked)).map((rows) => String(rows?.[0]?.[0]).length);
    };
    const isAvoided = (organization: string) => pipelines.laneOf(echo(''), organization) === undefined;
    // On a busy machine, one of them can be slow too.
    const areOthersAvoided = () =>
      Array.from({ length: 30 }, (_, index) => index !== 7 && isAvoided(`small ${index}`)).some(Boolean);
    /**
     * Returns the time until the organization is no longer avoided, in milliseconds. It is longer on a busy
     * machine.
     */
    const avoidedFor = async () => {
      let start = 0;
      await until(async () => {
        if (!isAvoided(large)) start = performance.now();
        return (await ask())[7] === 400_000 && isAvoided(large) && !areOthersAvoided();
      }, 'only it to be avoided');
      await until(() => !isAvoided(large), 'it to be back');
      return performance.now() - start;
    };
    await avoidedFor();
    // The organization is avoided for one second the first time, and for two the second time.
    const second = await avoidedFor();
    assert.ok(second > 1500, `${second} ms`);
  });

  test('large lists of one organization: four are on their way before the first shows it, the rest goes to the pool', async () => {
    await ready();
    const { id, key } = await instance.organization('large');
    await administrate(
      `insert into leads (organization_id, created_at, updated_at, description)
        select $1, now(), now(), repeat('x', 30000) from generate_series(1, 20)`,
      [id],
    );
    const { run: shared } = pipelines;
    const { primary } = partsOf(instance.database);
    const { run: pooled } = primary;
    const { promise: open, resolve: opened } = Promise.withResolvers<void>();
    let started = 0;
    let late = 0;
    /** Number of lists started on the shared connections when the first list ran in the pool. */
    let startedBefore: number | undefined;
    const held: SharedConnections['run'] = async (...given) => {
      started++;
      await open;
      const rows = await shared(...given);
      if (rows === undefined) late++;
      return rows;
    };
    const watched: Server['run'] = (statement) => {
      if (statement.lane === 'list') startedBefore ??= started;
      return pooled(statement);
    };
    Object.assign(pipelines, { run: held });
    Object.assign(primary, { run: watched });
    try {
      const lists = Array.from({ length: 12 }, () => instance.call('GET /api/v1/leads', { key }));
      await until(() => started === 4, 'four lists');
      opened();
      for (const { json } of await Promise.all(lists)) assert.equal((json.data as unknown[]).length, 20);
      // A late list also runs in the pool, but without a result that shows its size.
      if (late === 0) assert.equal(startedBefore, 4);
      assert.ok(started < lists.length, `${started}`);
    } finally {
      Object.assign(pipelines, { run: shared });
      Object.assign(primary, { run: pooled });
    }
  });

  /** Prepares a list that returns the numbers from 1 to the input as records. */
  const counting = (order: string) =>
    prepare<string>(
      `counted ${order}`,
      'list',
      ($) => `select g::text as "n" from generate_series(1, ${$(String)}::int) g`,
      { fields: [{ name: 'n', type: { encode: verbatim, csv: { encode: verbatim } } }] },
      {
        write: ($) =>
          ` select ${inputIndex}, _p.* from ${inputs} cross join lateral (select g::text as "n" from generate_series(1, ${$(String)}::int) g) _p ${order}`,
        differ: 0,
        lists: true,
      },
    );
  const counted = (order: string, sizes: readonly string[]) =>
    Promise.all(
      sizes.map(async (size, index) => {
        const rows = await pipelines.run(counting(order).bind(size), String(index));
        return rows && String(rows[0]?.[0] ?? '');
      }),
    );

  test('lists that arrive together are one statement: each has its own records or none, in any order', async () => {
    await ready();
    const sizes = ['3', '0', '1', '0', '2'];
    for (const order of ['', 'order by _number desc', 'order by _number % 2, _number']) {
      const lists = ['{"n":1},{"n":2},{"n":3}', '', '{"n":1}', '', '{"n":1},{"n":2}'];
      await until(async () => {
        const found = await counted(order, sizes);
        for (const [index, list] of found.entries())
          if (list !== undefined) assert.equal(list, lists[index], order);
        return !found.includes(undefined);
      }, 'all of them');
    }
    await until(async () => {
      await counted('', sizes);
      const names = await run(
        short('kept', `select count(*)::text from pg_prepared_statements where name like 'counted%many'`),
      );
      return Number(names?.[0]?.[0]) > 0;
    }, 'one statement');
  });

  test('a list whose rows come in two places, or one that fails: all of them go to the pool', async () => {
    await ready();
    const two = '{"n":1},{"n":2}';
    // On a busy machine, the lists can be sent in several statements, of which some do not fail.
    const isPool = (lists: readonly unknown[], isValid: (index: number) => boolean) => {
      for (const [index, list] of lists.entries())
        if (list !== undefined) assert.deepEqual([isValid(index), list], [true, two]);
      return lists.every((list) => list === undefined);
    };
    await until(
      async () => isPool(await counted(`order by _p."n", _number`, ['2', '2', '2', '2']), () => true),
      'all of them to go to the pool',
    );
    // Lists sent at the same time are not affected.
    await until(async () => {
      const [failed, others, next] = await Promise.all([
        counted('', ['2', '2', 'x', 'x']),
        turn().then(() => counted('', ['1', '2'])),
        turn().then(() => counted('', ['2'])),
      ]);
      const isFailed = isPool(failed, (index) => index < 2);
      return isFailed && isDeepStrictEqual([...others, ...next], ['{"n":1}', two, two]);
    }, 'answer the others');
  });

  test('a list that is slow among others: then each runs alone, which shows whose it is', async () => {
    await ready();
    const write = ($: (value: (seconds: string) => string) => string) =>
      `select pg_sleep(${$(String)}::float)::text || 'x' as "n"`;
    const slow = prepare<string>(
      'slow list',
      'list',
      write,
      { fields: [{ name: 'n', type: { encode: verbatim, csv: { encode: verbatim } } }] },
      {
        write: ($) =>
          ` select ${inputIndex}, _p.* from ${inputs} cross join lateral (${write($)} limit 1) _p`,
        differ: 0,
        lists: true,
      },
    );
    const ask = (organizations: readonly string[]) =>
      Promise.all(
        organizations.map((each) =>
          pipelines.run(
            slow.bind(each === 'slow one' ? '0.1' : '0'),
            each === 'slow one' ? each : `of ${each}`,
          ),
        ),
      );
    const isAvoided = (organization: string) => pipelines.laneOf(echo(''), organization) === undefined;
    const asked = ['1', 'slow one', '2', '3'];
    // On a busy machine, another one can be slow too.
    await until(async () => {
      await ask(asked);
      return isAvoided('slow one') && !['1', '2', '3'].some((each) => isAvoided(`of ${each}`));
    }, 'only its organization to be left to the pool');
  });

  test('named statements of each connection are bounded, the least recently used ended first', async () => {
    const usual = short(
      'names',
      `select pg_backend_pid()::text, count(*)::text, max(generic_plans + custom_plans) filter (where name = 'echo')::text from pg_prepared_statements`,
    );
    await until(async () => {
      await bothReady();
      const before = await backends();
      for (let index = 0; index < 2 * statementsPerConnection; index++) {
        const kept = Array.from({ length: 4 }, () => echo('kept'));
        const rows = await onBoth([...kept, short(`name ${index}`, `select '${index}'::text`)]);
        const expected = ['kept', 'kept', 'kept', 'kept', String(index)];
        for (const [number, each] of rows.entries())
          if (each !== undefined) assert.equal(each[0]?.[0], expected[number % expected.length]);
      }
      const found = await onBoth([usual, usual]);
      for (const rows of found) {
        if (rows === undefined) continue;
        assert.ok(Number(rows[0]?.[1]) <= statementsPerConnection);
      }
      // Both connections must have been open the whole time.
      if (!isDeepStrictEqual(await backends(), before)) return false;
      const ids = new Set(found.map((rows) => rows?.[0]?.[0]));
      if (ids.size !== 2 || ids.has(undefined)) return false;
      for (const rows of found) {
        const [, names, uses] = (rows?.[0] ?? []).map(Number);
        assert.equal(names, statementsPerConnection);
        assert.ok(
          Number(uses) > 2 * statementsPerConnection,
          'what is used all the time was never made again',
        );
      }
      return true;
    }, 'use both connections');
  });

  test('what is not short, or has no name, is not taken', () => {
    for (const lane of ['write', 'deep', 'scan'] as const) {
      assert.equal(pipelines.laneOf({ ...echo(''), lane }, '1'), undefined, lane);
    }
    assert.equal(pipelines.laneOf({ ...echo(''), name: '' }, '1'), undefined);
  });

  test(`${answers} answers while connections are killed, statements cancelled and a table locked: none is wrong`, async () => {
    await ready();
    let asked = 0;
    let right = 0;
    let inPipelines = 0;
    const others = new Map<string, number>();
    const wrong: string[] = [];
    let isOver = false;

    /** Requests a record or a list, and checks that the response matches the request. */
    async function ask(number: number): Promise<void> {
      const organization = organizations[number % organizations.length];
      const id = organization?.ids[(number * 7) % perOrganization];
      assert.ok(organization);
      const isList = number % 5 === 0;
      const path = isList ? '/api/v1/leads' : `/api/v1/leads/${id}`;
      const { status, json, text } = await instance.call(`GET ${path}`, { key: organization.key });
      if (status !== 200) {
        const kind = `${status} ${json.code ?? json.error}`;
        others.set(kind, (others.get(kind) ?? 0) + 1);
        if (status !== 500 && status !== 503) wrong.push(text);
        return;
      }
      right++;
      const records = (isList ? json.data : [json]) as Record<string, unknown>[];
      const isRight =
        records.length === (isList ? 20 : 1) &&
        records.every(
          (record) =>
            String(record.organization_id) === organization.id &&
            organization.ids.includes(String(record.id)) &&
            (isList || String(record.id) === id) &&
            String(record.last_name) === `${organization.slug}-${String(record.description).length / 50}`,
        );
      if (!isRight) wrong.push(`${path} of ${organization.slug}: ${text.slice(0, 300)}`);
    }
    const client = async () => {
      // On a busy machine, more statements are late.
      const isEnough = () => asked >= answers && inPipelines >= answers / 4 && right >= answers / 2;
      while (!isEnough() && asked < 20 * answers) await ask(asked++);
    };
    async function sabotage(): Promise<void> {
      for (let round = 0; !isOver; round++) {
        const pid = Number((await backends())[0]) || 0;
        if (round % 16 === 15) {
          await administrate(
            'begin; lock table leads in access exclusive mode; select pg_sleep(0.1); commit',
          );
        } else if (round % 3 === 0) await administrate('select pg_terminate_backend($1::int)', [pid]);
        else if (round % 3 === 1) await administrate('select pg_cancel_backend($1::int)', [pid]);
        else await run(short(`broken ${round}`, 'select 1 / 0'));
        await pause(20);
      }
    }
    const { run: shared } = pipelines;
    const count: SharedConnections['run'] = async (...given) => {
      const rows = await shared(...given);
      if (rows !== undefined) inPipelines++;
      return rows;
    };
    Object.assign(pipelines, { run: count });
    const saboteur = sabotage();
    await Promise.all(Array.from({ length: clients }, client));
    isOver = true;
    await saboteur;
    Object.assign(pipelines, { run: shared });
    assert.deepEqual(wrong, []);
    const rest = JSON.stringify(Object.fromEntries(others));
    process.stdout.write(
      `${right} of ${asked} right, none wrong, ${inPipelines} by shared connections; others: ${rest}\n`,
    );
    assert.ok(inPipelines >= answers / 4 && right >= answers / 2, `${inPipelines}, ${rest}`);
  });
});
