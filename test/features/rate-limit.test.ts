// Rate limits per key and per user, shared by all nodes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { readConfig } from '../../app/config.ts';
import { buildService } from '../../app/serve/build.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { requestCounts } from '../../plugins/access/rate-limiting/request-counts.ts';
import { storeCounts } from '../../plugins/access/rate-limiting/tables.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { alignIds } from '../support/ids.ts';
import { type Answer, type Call, type Organization, onBothDrivers, send } from '../support/instance.ts';
import { fresh, logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { assertErrorShape } from '../support/scenario.ts';

const limit = 40;
const fields = ({ headers }: Answer) => {
  const [, requests, windowSeconds] =
    /^"requests";q=(\d+);w=(\d+)$/.exec(headers.get('ratelimit-policy') ?? '') ?? [];
  const [, left, seconds] = /^"requests";r=(\d+);t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? [];
  return { policy: [requests, windowSeconds].map(Number), left: Number(left), seconds: Number(seconds) };
};

const windowOf = () => Math.floor(Date.now() / 3_600_000);
/** Repeats a failed test if the window ended during the test, because requests are then counted from zero. */
const inOneWindow = (work: () => Promise<void>) => async () => {
  for (;;) {
    const window = windowOf();
    try {
      return await work();
    } catch (cause) {
      if (windowOf() === window) throw cause;
    }
  }
};

test('requests that arrive while counts are being stored are counted', async () => {
  const { promise: isStored, resolve: finish } = Promise.withResolvers<void>();
  let storing = 0;
  let sum = 0;
  const counts = requestCounts(
    { requests: 5, windowMs: 1e15 },
    async (_, batch) => {
      storing++;
      await isStored;
      return batch.map(({ requests }) => (sum += requests));
    },
    (cause) => assert.fail(String(cause)),
  );
  const consume = () => counts.consume('1', 'key 1').remaining;
  assert.equal(consume(), 4);
  await until(() => storing === 1, 'the count to be stored');
  assert.deepEqual([consume(), consume()], [3, 2]);
  const closing = counts.close();
  finish();
  await closing;
  assert.equal(consume(), 1);
});

test('counts that cannot be stored are stored later, and limit the caller in the meantime', async () => {
  let [sum, failures] = [0, 0];
  const counts = requestCounts(
    { requests: 3, windowMs: 1e15 },
    async (_, batch) => {
      if (failures < 2) throw new Error('no database');
      return batch.map(({ requests }) => (sum += requests));
    },
    () => failures++,
  );
  const consume = () => counts.consume('1', 'key 1').isAllowed;
  assert.deepEqual([consume(), consume()], [true, true]);
  await until(() => failures === 1, 'fail to store the counts');
  assert.deepEqual([consume(), consume()], [true, false]);
  await until(() => sum === 3, 'store the counts without another request');
  await counts.close();
  assert.deepEqual([sum, failures], [3, 2]);
});

test('each window starts with all requests', async () => {
  const counts = requestCounts(
    { requests: 2, windowMs: 1000 },
    async (_, batch) => batch.map(() => 2),
    (cause) => assert.fail(String(cause)),
  );
  const consume = () => counts.consume('1', 'key 1');
  await until(() => !consume().isAllowed, 'use up the requests');
  await until(() => consume().isAllowed, 'start a window');
  await counts.close();
});

onBothDrivers(
  'The rate limit',
  (instance) => {
    let acme: Organization;
    let other: FastifyInstance;
    let otherUrl: string;
    before(async () => {
      acme = await instance().organization('acme');
      const { config } = instance();
      other = await buildService({ ...instance(), secrets: instanceSecrets(config) });
      otherUrl = await other.listen({ host: '127.0.0.1', port: 0 });
    });
    after(() => other.close());

    test(
      'responses contain the remaining requests, and requests beyond the limit return 429 for that caller only',
      inOneWindow(async () => {
        const [key, second] = await Promise.all([acme.makeKey(), acme.makeKey()]);
        for (let left = limit - 1; left >= 0; left--) {
          const request = left % 2 === 0 ? 'GET /api/v1/leads' : 'GET /api/v1/leads/7';
          const answer = await instance().call(request, key);
          assert.equal(answer.status, left % 2 === 0 ? 200 : 404);
          const { policy, seconds, ...said } = fields(answer);
          assert.deepEqual([policy, said.left], [[limit, 3600], left]);
          assert.ok(seconds > 0 && seconds <= 3600);
        }
        const { paths } = (await instance().call('GET /docs/openapi.json')).json as {
          paths: Record<string, Record<string, object>>;
        };
        const requests = Object.entries(paths).flatMap(([path, operations]) =>
          path.startsWith('/api/v1/')
            ? Object.keys(operations)
                .filter((name) => name !== 'parameters')
                .map((method) => `${method.toUpperCase()} ${path.replace('{id}', '7')}`)
            : [],
        );
        assert.ok(requests.length >= 50);
        for (const request of requests) {
          // Without this preference, the paths of lists do not support all methods.
          const response = await instance().call(request, { ...key, headers: { prefer: 'bulk' } });
          assert.equal(response.status, 429);
          if (!request.startsWith('HEAD')) {
            assertErrorShape(response);
            assert.equal(response.json.code, 'rate_limited');
          }
          assert.equal(Number(response.headers.get('retry-after')), fields(response).seconds);
          assert.equal(fields(response).left, 0);
        }
        assert.equal((await instance().call('GET /api/v1/leads', second)).status, 200);
      }),
    );

    test(
      'a user and an API key with the same ID are separate callers, and so is a user in two organizations',
      inOneWindow(async () => {
        const number = await alignIds(instance(), ['crm_users', 'crm_api_keys']);
        const beta = await instance().organization(fresh('beta'));
        const person = await makePerson(instance(), [{ organization: acme }, { organization: beta }]);
        const machine = await acme.makeKey();
        const next = String(BigInt(number) + 1n);
        assert.deepEqual([person.id, machine.id], [next, next], 'the administrator of beta has the first ID');
        const { byToken } = await logIn(instance(), person);
        const left = async (call: Call, org: string) =>
          fields(await instance().call(`GET /api/v1/leads?org=${org}`, call)).left;
        const user = { headers: byToken };
        assert.deepEqual([await left(user, 'acme'), await left(user, 'acme')], [limit - 1, limit - 2]);
        assert.deepEqual([await left(machine, 'acme'), await left(user, beta.slug)], [limit - 1, limit - 1]);
      }),
    );

    test(
      'does not count lookups of the caller, unauthorized requests or public content',
      inOneWindow(async () => {
        const { key } = await acme.makeKey();
        const nothing = await acme.keyWith([]);
        for (const [request, credentials, status] of [
          ['GET /auth/me', key, 200],
          ['GET /docs/openapi.json', key, 200],
          ['OPTIONS /api/v1/leads', key, 204],
          ['GET /api/v1/leads', nothing, 403],
          ['GET /api/v1/leads', `${key}x`, 401],
        ] as const) {
          const answer = await instance().call(request, { key: credentials });
          assert.equal(answer.status, status, request);
          assert.equal(answer.headers.get('ratelimit'), null, request);
        }
        assert.equal(fields(await instance().call('GET /api/v1/leads', { key })).left, limit - 1);
      }),
    );

    test(
      'another node learns the count after its own first requests',
      inOneWindow(async () => {
        const { id, key } = await acme.makeKey();
        for (let count = 0; count < limit; count++) {
          assert.equal((await instance().call('GET /api/v1/leads', { key })).status, 200);
        }
        const stored = async () => {
          const text = 'select "requests"::text from "crm_request_counts" where "caller" = $1';
          const [row] = await instance().database.run({ name: '', text, values: [`key ${id}`] });
          return Number(row?.[0] ?? 0);
        };
        await until(async () => (await stored()) === limit, 'store the count');
        let served = 0;
        const isServed = async () => {
          const { status } = await send(otherUrl, 'GET /api/v1/leads', { key });
          if (status === 200) served++;
          return status === 200;
        };
        assert.ok(await isServed());
        // The other node reads the stored count when it adds its own.
        await until(async () => (await stored()) > limit, 'store the count of the other node');
        await until(async () => !(await isServed()), 'reject requests');
        assert.ok(served < limit, `${served} requests beyond the limit`);
      }),
    );

    test('a node that stops stores its counts', async () => {
      const { id, key } = await acme.makeKey();
      const node = await buildService({ ...instance(), secrets: instanceSecrets(instance().config) });
      const headers = { authorization: `Bearer ${key}` };
      const request = async () =>
        assert.equal((await node.inject({ url: '/api/v1/leads', headers })).statusCode, 200);
      const stored = async () => {
        const rows = await tablesOf(instance().database)
          .selectFrom('crm_request_counts')
          .select('requests')
          .where('caller', '=', `key ${id}`)
          .execute();
        return rows.map(({ requests }) => requests).join();
      };
      await request();
      await until(async () => (await stored()) === '1', 'store the first request');
      await request();
      await node.close();
      assert.equal(await stored(), '2');
    });

    test('counting does not need a statement per request', async () => {
      const { key } = await acme.makeKey();
      const { database } = instance();
      const { run } = database;
      let stored = 0;
      Object.assign(database, {
        run: (statement: Parameters<typeof run>[0]) => {
          if (statement.name === 'request_counts') stored++;
          return run(statement);
        },
      });
      const start = performance.now();
      try {
        for (let count = 0; count < limit; count++) await instance().call('GET /api/v1/leads', { key });
      } finally {
        Object.assign(database, { run });
      }
      const seconds = (performance.now() - start) / 1000;
      assert.ok(stored <= 2 + seconds, `${stored} in ${seconds} s`);
    });

    test('the counts of all nodes are added up in each window, and those of an earlier window are ignored', async () => {
      const [caller, other] = [fresh('key'), fresh('key')];
      const store = (minute: number, ...batch: readonly (readonly [caller: string, requests: number])[]) =>
        storeCounts(
          instance().database,
          new Date(minute * 60_000),
          batch.map(([name, requests]) => ({ organization: acme.id, caller: name, requests })),
        );
      assert.deepEqual(await store(1, [caller, 3]), [3]);
      assert.deepEqual(await store(1, [other, 1], [caller, 4]), [1, 7]);
      assert.deepEqual(await store(2, [caller, 5]), [5]);
      assert.deepEqual(await store(1, [caller, 6], [other, 1]), [undefined, 2]);
      assert.deepEqual(await store(2, [caller, 1]), [6]);
    });

    test('the API description and /auth/me contain the limit', async () => {
      const { json } = await instance().call('GET /auth/me', { key: acme.key });
      const { limits } = json as { limits: Record<string, unknown> };
      assert.deepEqual(limits.rate, { requests: limit, window_seconds: 3600 });
      const { paths } = (await instance().call('GET /docs/openapi.json')).json as {
        paths: Record<string, Record<string, { responses?: Record<string, { headers?: object }> }>>;
      };
      for (const [path, operations] of Object.entries(paths)) {
        for (const { responses } of Object.values(operations)) {
          if (!path.startsWith('/api/v1/') || responses === undefined) continue;
          assert.ok(responses[429], path);
          assert.ok(Object.hasOwn((responses[200] ?? responses[201])?.headers ?? {}, 'RateLimit'), path);
        }
      }
    });
  },
  { environment: { RATE_LIMIT: `${limit}/h` } },
);

test('the limit is a number of requests per second, minute or hour; others are rejected in one line', () => {
  for (const value of ['60', '60/day', '0/min', '-1/s', '1.5/s', '60 / min', 'min', '9999999999/s']) {
    assert.throws(() => readConfig({ RATE_LIMIT: value }), {
      message: 'RATE_LIMIT must be a number of requests per s, min or h, such as 60/min',
    });
  }
  for (const [unit, windowMs] of [
    ['s', 1000],
    ['min', 60_000],
    ['h', 3_600_000],
  ] as const)
    assert.deepEqual(readConfig({ RATE_LIMIT: `60/${unit}` }).rateLimit, { requests: 60, windowMs });
  assert.equal(readConfig({}).rateLimit, undefined);
});
