// One organization sends as many requests as it can, while other organizations are still served. Run "npm run
// bench:starve" for measurements.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { statementsPerConnection } from '../../engine/database/named-statements.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { replacingRun } from '../support/statements.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const lockTimeoutMs = 1000;
const worst = 'GET /api/v1/leads?sort=description&dir=desc';

function assertShed(answer: Answer, codes: readonly string[]): void {
  assert.equal(answer.status, 503, answer.text);
  assert.ok(codes.includes(String(answer.json.code)), answer.text);
  assertErrorShape(answer);
  assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
}

describe('one organization cannot starve another', () => {
  let instance: Instance;
  let greedy: Organization & { lead: string };
  let modest: Organization & { lead: string };

  const withLead = async (slug: string) => {
    const organization = await instance.organization(slug);
    const { key } = organization;
    const made = await instance.call('POST /api/v1/leads', { key, body: { last_name: 'first' } });
    return { ...organization, lead: `/api/v1/leads/${made.json.id}` };
  };

  before(async () => {
    instance = await startInstance('postgresql', {
      environment: {
        // On a busy machine, statements take long. Only lock waits end early.
        DATABASE_STATEMENT_TIMEOUT_MS: '60000',
        DATABASE_LIST_TIMEOUT_MS: '60000',
        DATABASE_LOCK_TIMEOUT_MS: String(lockTimeoutMs),
      },
    });
    greedy = await withLead('greedy');
    modest = await withLead('modest');
  });
  after(() => instance.close());

  /** Asserts that requests of every kind succeed with a key that has not been looked up before. */
  async function assertModestServed(): Promise<void> {
    const { key } = await modest.makeKey();
    const requests: [request: string, body?: unknown][] = [
      [`GET ${modest.lead}`],
      ['GET /api/v1/leads'],
      [worst],
      [`PUT ${modest.lead}`, { last_name: 'again' }],
      ['POST /api/v1/accounts', { name: 'new' }],
    ];
    for (const [request, body] of requests) {
      const answer = await instance.call(request, { key, ...(body === undefined ? {} : { body }) });
      assert.ok(answer.status < 300, `${request}: ${answer.status} ${answer.text}`);
    }
  }

  test('runs one of 64 expensive concurrent lists at a time and serves other organizations meantime', async () => {
    let opened = () => {};
    const open = new Promise<void>((resolve) => {
      opened = resolve;
    });
    let running = 0;
    let most = 0;
    await replacingRun(
      instance.database,
      (run) => async (statement) => {
        if (statement.values[0] !== greedy.id) return run(statement);
        most = Math.max(most, ++running);
        await open;
        return run(statement).finally(() => running--);
      },
      async () => {
        const lists = Array.from({ length: 64 }, () => instance.call(worst, { key: greedy.key }));
        await until(() => running > 0, 'a list to run');
        await assertModestServed();
        opened();
        for (const { status } of await Promise.all(lists)) assert.ok(status === 200 || status === 503);
        assert.equal(most, 1);
      },
    );
  });

  test('returns 503 too_slow to writes waiting for a locked row while all other requests succeed', async () => {
    await connected(String(instance.config.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query('select from leads where id = $1 for update', [greedy.lead.split('/').at(-1)]);
      const began = performance.now();
      const writes = Array.from({ length: 20 }, (_, index) =>
        index % 2 === 0
          ? instance.call(`PUT ${greedy.lead}`, { key: greedy.key, body: { last_name: 'late' } })
          : instance.call(`DELETE ${greedy.lead}`, { key: greedy.key }),
      );
      await untilWaiting(client, 'a write to wait');
      await assertModestServed();
      assert.equal((await instance.call(`GET ${greedy.lead}`, { key: greedy.key })).status, 200);
      const first = await Promise.race(writes);
      const waited = performance.now() - began;
      assertShed(first, ['too_slow']);
      assert.ok(waited >= lockTimeoutMs, `${waited}`);
      for (const answer of await Promise.all(writes)) assertShed(answer, ['too_slow', 'overloaded']);
      await client.query('rollback');
    });
    const kept = await instance.call(`GET ${greedy.lead}`, { key: greedy.key });
    assert.equal(kept.json.last_name, 'first', 'rejected writes have no effect');
  });
});

describe('a slow list', () => {
  let instance: Instance;
  before(async () => {
    const environment = { DATABASE_LIST_TIMEOUT_MS: '5', DATABASE_STATEMENT_TIMEOUT_MS: '5000' };
    instance = await startInstance('postgresql', { environment });
  });
  after(() => instance.close());

  test('is cancelled by the server with 503 too_slow; other statements have their own timeout', async () => {
    const { id, key } = await instance.organization('large');
    await connected(String(instance.config.environment.DATABASE_URL), (client) =>
      client.query(
        `insert into leads (organization_id, created_at, updated_at, description)
          select $1, now(), now(), repeat(md5(n::text), 8) from generate_series(1, 20000) n`,
        [id],
      ),
    );
    // On a busy machine, the server's response can be so late that the request fails with 500.
    let slow: Answer | undefined;
    await until(async () => {
      slow = await instance.call(worst, { key });
      return slow.status !== 500;
    }, 'be cancelled by the server');
    assertShed(slow ?? assert.fail(), ['too_slow']);
    const timeouts = async (lane: 'list' | 'deep' | 'scan' | 'read' | 'write') => {
      let value: unknown;
      // On a busy machine, even this statement can exceed the limit.
      await until(async () => {
        const [row] = await instance.database
          .run({ lane, name: '', text: 'show statement_timeout', values: [] })
          .catch((cause: { code?: string }) => {
            assert.equal(cause.code, '57014');
            return [];
          });
        value = row?.[0];
        return row !== undefined;
      }, 'show the limit');
      return value;
    };
    assert.deepEqual(await Promise.all((['list', 'deep', 'scan', 'read', 'write'] as const).map(timeouts)), [
      '5ms',
      '5ms',
      '5ms',
      '5s',
      '5s',
    ]);
  });
});

describe('one connection for lists', { concurrency: 1 }, () => {
  let instance: Instance;
  before(async () => {
    instance = await startInstance('postgresql', {
      environment: {
        DATABASE_POOL: '3',
        DATABASE_CONNECT_TIMEOUT_MS: '700',
        // No statement times out, because the test determines how long each one takes.
        DATABASE_STATEMENT_TIMEOUT_MS: '600000',
        DATABASE_LIST_TIMEOUT_MS: '600000',
      },
    });
  });
  after(() => instance.close());

  test('returns 503 overloaded to lists while none is free, serves everything else, and recovers', async () => {
    const { key } = await instance.organization('waiting');
    // Later pages do not use the connections shared by short statements.
    const lists = (count: number) =>
      Promise.all(Array.from({ length: count }, () => instance.call('GET /api/v1/accounts?page=6', { key })));
    await connected(String(instance.config.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query('lock table leads in access exclusive mode');
      const locked = instance.call('GET /api/v1/leads', { key });
      const isTaken = () =>
        instance.database.status().connections.some(({ pool, inUse }) => pool === 'lists' && inUse === 1);
      await until(isTaken, 'the connection for lists to wait');
      const others = lists(20);
      // Other statements have their own connections, but a busy machine can exceed the time limit.
      await until(
        async () =>
          (await instance.call('POST /api/v1/accounts', { key, body: { name: 'concurrent' } })).status ===
          201,
        'serve other statements',
      );
      for (const answer of await others) assertShed(answer, ['overloaded']);
      await client.query('rollback');
      assert.equal((await locked).status, 200);
    });
    await until(async () => (await lists(5)).every(({ status }) => status === 200), 'serve every list');
  });

  // Covers pooled connections. test/faults/pipelines.test.ts covers shared connections.
  test('limits its named statements and closes the least recently used first when every list shape is requested', async () => {
    const { key } = await instance.organization('curious');
    const onConnection = (text: string) =>
      instance.database.run({ lane: 'list', name: '', text, values: [] });
    const count = async () =>
      Number((await onConnection('select count(*)::text from pg_prepared_statements'))[0]?.[0]);
    const leads = instance.resources.find(({ name }) => name === 'leads');
    const shapes = [...(leads?.definition.sort.choices.keys() ?? [])].flatMap((sort) =>
      ['asc', 'desc'].flatMap((dir) => [1, 2, 6].map((page) => `sort=${sort}&dir=${dir}&page=${page}`)),
    );
    assert.ok(shapes.length > statementsPerConnection, `${shapes.length}`);
    for (const shape of [...shapes, ...shapes.slice(0, 3)]) {
      const answer = await instance.call(`GET /api/v1/leads?${shape}`, { key });
      assert.equal(answer.status, 200, answer.text);
      // This statement is used between all others, so it stays prepared.
      assert.equal((await instance.call('GET /api/v1/leads?page=6', { key })).status, 200);
      assert.ok((await count()) <= statementsPerConnection);
    }
    assert.equal(await count(), statementsPerConnection);
    const usual = `select (generic_plans + custom_plans)::text from pg_prepared_statements order by 1 desc`;
    const uses = (await onConnection(usual)).map(([text]) => Number(text));
    assert.ok(Math.max(...uses) > shapes.length, 'the usual list was not prepared again');
  });
});
