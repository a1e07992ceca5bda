// Lookups whose result several requests wait for: which slot they need, and whose disconnect cancels them.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { coalesce } from '../../engine/database/coalesce.ts';
import { cancellingRequest, RequestScope, runInRequest } from '../../engine/database/requests.ts';
import { cacheCounts, ttlCache } from '../../engine/database/ttl-cache.ts';
import { errors } from '../../engine/errors.ts';
import { drivers, type Instance, startInstance } from '../support/instance.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { patient, within } from '../support/promised.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;

/** Time in which a request that waits for nothing is served, in milliseconds. */
const servedMs = 5000;

test('a coalesced run is not cancelled when the client of its first caller disconnects', async () => {
  const run = coalesce(async () => cancellingRequest());
  assert.equal(await runInRequest(new RequestScope(() => '1'), run), undefined);
});

test('a cached lookup is not cancelled when the client of its first caller disconnects', async () => {
  const lookups = ttlCache('test_disconnected', async () => ({ request: cancellingRequest() }));
  const first = new RequestScope(() => '1');
  assert.deepEqual(await runInRequest(first, async () => lookups.get('a')), { request: undefined });
});

test('a coalesced call never receives a result that was computed before it', async () => {
  const runs: ((result: string) => void)[] = [];
  const call = coalesce(() => new Promise<string>((resolve) => runs.push(resolve)));
  const [first, shared] = [call(), call()];
  await within(
    servedMs,
    until(() => runs.length === 1, 'the first run starts'),
  );
  const later = [call(), call()];
  await new Promise(setImmediate);
  assert.equal(runs.length, 1, 'only one run at a time');
  runs[0]?.('first');
  await within(
    servedMs,
    until(() => runs.length === 2, 'the second run starts'),
  );
  runs[1]?.('second');
  assert.deepEqual(await Promise.all([first, shared, ...later]), ['first', 'first', 'second', 'second']);
});

test('a failed run affects only the calls that share it', async () => {
  let count = 0;
  const call = coalesce(async () => {
    if (++count === 1) throw new Error('failed');
    return count;
  });
  await Promise.all([assert.rejects(call(), /failed/), assert.rejects(call(), /failed/)]);
  assert.equal(await within(servedMs, call()), 2);
});

test('a failed lookup is not cached', async () => {
  let count = 0;
  const values = ttlCache('test_failing', async () => {
    if (++count === 1) throw new Error('Connection terminated');
    return { count };
  });
  await assert.rejects(async () => values.get('a'), { status: 500 });
  assert.deepEqual(await values.get('a'), { count: 2 });
});

test('a lookup that is not admitted is rejected as overloaded', async () => {
  const values = ttlCache('test_overloaded', async () => {
    throw errors.overloaded();
  });
  await assert.rejects(async () => values.get('a'), { status: 503, code: 'overloaded' });
});

test('a key without a value is looked up once, until it is forgotten', async () => {
  let count = 0;
  const values = ttlCache('test_unknown', async () => {
    count++;
    return undefined;
  });
  const { misses = 0 } = cacheCounts().get('test_unknown') ?? {};
  for (let calls = 0; calls < 3; calls++) assert.equal(await values.get('a'), undefined);
  assert.deepEqual([count, cacheCounts().get('test_unknown')], [1, { hits: 2, misses: misses + 1 }]);
  values.forget('b');
  assert.equal(values.get('a'), undefined);
  values.forget('a');
  await values.get('a');
  assert.equal(count, 2);
});

test('keys with the same text share a value', async () => {
  let count = 0;
  interface Key {
    readonly kind: string;
    readonly id: string;
  }
  const values = ttlCache('test_objects', async ({ id }: Key) => ({ id, count: ++count }), {
    textOf: ({ kind, id }) => `${kind} ${id}`,
  });
  const key = (id: string, kind = 'a') => ({ kind, id });
  const [first, same, other] = await Promise.all([
    values.get(key('1')),
    values.get(key('1')),
    values.get(key('1', 'b')),
  ]);
  assert.deepEqual([first, same, other], [{ id: '1', count: 1 }, first, { id: '1', count: 2 }]);
  values.forget(key('1'));
  assert.deepEqual(await values.get(key('1')), { id: '1', count: 3 });
});

test('a value that was looked up slowly is cached for less time, because it can have changed since', async () => {
  let count = 0;
  const values = ttlCache('test_slow', async () => {
    if (++count === 1) await pause(900);
    return { count };
  });
  assert.deepEqual(await values.get('a'), { count: 1 });
  assert.deepEqual(await values.get('a'), { count: 2 });
});

/** Returns whether a statement in this database waits for a lock. */
const hasLockWait = (url: string): Promise<boolean> =>
  connected(url, async (client) => {
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    return (await client.query(waiting)).rowCount !== 0;
  });

suite('shared lookups with one connection for writes', { concurrency: 1 }, () => {
  let instance: Instance;
  before(async () => {
    // One connection for records is reserved for lookups, so an organization has a single slot for writes.
    instance = await startInstance('postgresql', { environment: { ...patient, DATABASE_POOL: '3' } });
  });
  after(() => instance?.close());

  const inRequest = <T>(organization: string, work: () => T): T =>
    runInRequest(new RequestScope(() => organization), work);
  const find = async (key: string) => ({
    rows: await instance.database.run({ name: '', text: `select '${key}'`, values: [] }),
  });
  const waitingFor = (lane: string) =>
    instance.database.status().lanes.find((load) => load.lane === lane)?.waiting;

  /** Occupies an organization's only slot for writes while the work runs. */
  async function occupied(organization: string, work: () => Promise<void>): Promise<void> {
    const { promise: finished, resolve: finish } = Promise.withResolvers<void>();
    const writing = inRequest(organization, () => instance.database.schedule(() => finished));
    try {
      await work();
    } finally {
      finish();
      await writing;
    }
  }

  test('a lookup does not wait for the organization whose request starts it', async () => {
    const callers = ttlCache('test_callers', find);
    await occupied('1', async () => {
      const lookups = ['1', ''].map((owner) => inRequest(owner, () => callers.get('a')));
      for (const lookup of lookups) assert.deepEqual(await lookup, { rows: [['a']] });
    });
  });

  test("an organization's lookup waits for its slot, whichever request starts it", async () => {
    const counts = ttlCache('test_counts', find, { ownerOf: (organization) => organization });
    let lookup: ReturnType<typeof counts.get>;
    await occupied('1', async () => {
      lookup = inRequest('', () => counts.get('1'));
      assert.equal(waitingFor('module'), 1);
    });
    assert.deepEqual(await lookup, { rows: [['1']] });
  });

  test('a stream, whose caller is checked again and again, does not delay its key while a write waits', async () => {
    const { key } = await instance.organization('streaming');
    const url = String(instance.config.environment.DATABASE_URL);
    const streaming = request(`${instance.url}/events`, {
      headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
    });
    streaming.on('error', () => {});
    streaming.end();
    const [{ statusCode }] = await once(streaming, 'response');
    assert.equal(statusCode, 200);
    await connected(url, async (client) => {
      await client.query('begin');
      await client.query('lock table leads in share mode');
      const body = { records: [{ last_name: 'late' }] };
      const writing = instance.call('POST /api/v1/leads/batch', { key, body });
      await until(() => hasLockWait(url), 'the write to wait');
      const misses = () => cacheCounts().get('keys')?.misses ?? 0;
      const missesBefore = misses();
      await until(() => misses() > missesBefore, 'the caller of the stream to be checked');
      const { status } = await within(servedMs, instance.call('GET /api/v1/accounts?page=6', { key }));
      assert.equal(status, 200);
      await client.query('rollback');
      assert.ok((await writing).status < 300);
    });
    streaming.destroy();
  });
});
