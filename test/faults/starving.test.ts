// One organization asks for as much as it can; others are served in the meantime. The figures: npm run bench:starve.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { statementsPerConnection } from '../../engine/database/named-statements.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { replacingRun } from '../support/statements.ts';

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
      environment: { DATABASE_LOCK_TIMEOUT_MS: String(lockTimeoutMs) },
    });
    greedy = await withLead('greedy');
    modest = await withLead('modest');
  });
  after(() => instance.close());

  /** Requests of every kind, with a key that was not looked up before, are served. */
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

  test('64 worst concurrent lists: one of them runs, and others are served while it does', async () => {
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

  test('a locked row: who waits for it gets 503 too_slow; the organization still reads, others do all', async () => {
    await connected(String(instance.config.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query('select from leads where id = $1 for update', [greedy.lead.split('/').at(-1)]);
      const began = performance.now();
      const writes = Array.from({ length: 20 }, (_, index) =>
        index % 2 === 0
          ? instance.call(`PUT ${greedy.lead}`, { key: greedy.key, body: { last_name: 'late' } })
          : instance.call(`DELETE ${greedy.lead}`, { key: greedy.key }),
      );
      await until(async () => {
        // Statistics do not change within a transaction.
        await client.query('select pg_stat_clear_snapshot()');
        const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
        return (await client.query(waiting)).rowCount !== 0;
      }, 'a write to wait');
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
    assert.equal(kept.json.last_name, 'first', 'what was refused has not happened');
  });
});

describe('a list that takes too long', () => {
  let instance: Instance;
  before(async () => {
    instance = await startInstance('postgresql', { environment: { DATABASE_LIST_TIMEOUT_MS: '5' } });
  });
  after(() => instance.close());

  test('is ended by the server: 503 too_slow; statements other than lists have their own time', async () => {
    const { id, key } = await instance.organization('large');
    await connected(String(instance.config.environment.DATABASE_URL), (client) =>
      client.query(
        `insert into leads (organization_id, created_at, updated_at, description)
          select $1, now(), now(), repeat(md5(n::text), 8) from generate_series(1, 20000) n`,
        [id],
      ),
    );
    assertShed(await instance.call(worst, { key }), ['too_slow']);
    const timeouts = async (lane: 'list' | 'deep' | 'scan' | 'read' | 'write') =>
      (await instance.database.run({ lane, name: '', text: 'show statement_timeout', values: [] }))[0]?.[0];
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
        // No statement is cut off: how long one takes is up to the test.
        DATABASE_STATEMENT_TIMEOUT_MS: '600000',
        DATABASE_LIST_TIMEOUT_MS: '600000',
      },
    });
  });
  after(() => instance.close());

  test('none is left: lists get 503 overloaded while everything else is served; then they are served', async () => {
    const { key } = await instance.organization('waiting');
    // Pages further on have no part in the connections that short statements share.
    const lists = () =>
      Promise.all(Array.from({ length: 20 }, () => instance.call('GET /api/v1/accounts?page=6', { key })));
    await connected(String(instance.config.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query('lock table leads in access exclusive mode');
      const locked = instance.call('GET /api/v1/leads', { key });
      const isTaken = () =>
        instance.database.connections?.().some(({ pool, inUse }) => pool === 'lists' && inUse === 1) === true;
      await until(isTaken, 'the connection for lists to wait');
      const others = lists();
      const made = await instance.call('POST /api/v1/accounts', { key, body: { name: 'concurrent' } });
      assert.equal(made.status, 201, 'what is not a list has connections of its own');
      for (const answer of await others) assertShed(answer, ['overloaded']);
      await client.query('rollback');
      assert.equal((await locked).status, 200);
    });
    await until(async () => (await lists()).every(({ status }) => status === 200), 'serve every list');
  });

  // For pooled connections; test/faults/pipelines.test.ts has those of shared connections.
  test('its named statements are bounded, the least recently used ended first, while every shape of a list is asked for', async () => {
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
      // Used between all others, so it stays.
      assert.equal((await instance.call('GET /api/v1/leads?page=6', { key })).status, 200);
      assert.ok((await count()) <= statementsPerConnection);
    }
    assert.equal(await count(), statementsPerConnection);
    const usual = `select (generic_plans + custom_plans)::text from pg_prepared_statements order by 1 desc`;
    const uses = (await onConnection(usual)).map(([text]) => Number(text));
    assert.ok(Math.max(...uses) > shapes.length, 'the usual list was never made again');
  });
});
