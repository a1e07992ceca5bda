// Rules that delete old rows: how often their steps run, and which rows a step deletes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fastify from 'fastify';
import { sql } from 'kysely';
import { backgroundWork } from '../../engine/modules/background.ts';
import { deleteExpired, retentionBatch, startRetention } from '../../engine/modules/retention.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { idempotencyRetention } from '../../plugins/api/idempotency/index.ts';
import { agentCallsRetention, proposalsRetention } from '../../plugins/api/mcp/index.ts';
import { usageRetention } from '../../plugins/api/usage/usage.ts';
import { mergesRetention } from '../../plugins/tenants/merges/index.ts';
import { onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';

onBothDrivers('Retention', (instance) => {
  /** Starts a rule with these steps in an app of its own. */
  const appWith = (...steps: readonly (() => Promise<number>)[]) => {
    const lines: string[] = [];
    const app = fastify({
      logger: { level: 'warn', stream: { write: (line: string) => void lines.push(line) } },
    });
    let isReadOnly = false;
    app.decorate('isReadOnly', () => isReadOnly);
    app.decorate('retentionRules', []);
    app.decorate('background', backgroundWork());
    startRetention(app, instance().database, { label: 'old things', steps });
    const setReadOnly = () => {
      isReadOnly = true;
    };
    return { app, lines, setReadOnly };
  };

  test('a step is repeated while it deletes full batches, and the next step follows', async () => {
    const calls: string[] = [];
    const step =
      (name: string, ...counts: number[]) =>
      async () => {
        calls.push(name);
        return counts.shift() ?? 0;
      };
    const { app } = appWith(step('a', retentionBatch, retentionBatch, retentionBatch - 1), step('b'));
    assert.deepEqual(
      app.retentionRules.map(({ label }) => label),
      ['old things'],
    );
    await app.ready();
    await until(() => calls.includes('b'), 'the last step');
    await app.close();
    assert.deepEqual(calls, ['a', 'a', 'a', 'b']);
  });

  test('no batch follows when the app closes or becomes read-only', async () => {
    let others = 0;
    const paused = appWith(async () => {
      others++;
      paused.setReadOnly();
      return retentionBatch;
    });
    await paused.app.ready();
    let batches = 0;
    const closing = appWith(async () => {
      batches++;
      return retentionBatch;
    });
    await closing.app.ready();
    await until(() => batches >= 4, 'four batches');
    await closing.app.close();
    assert.equal(others, 1);
    await paused.app.close();
  });

  test('a failure is logged without its message, and the other steps do not run', async () => {
    let others = 0;
    const { app, lines } = appWith(
      () => Promise.reject(Object.assign(new Error('a secret'), { code: '57014' })),
      async () => others++,
    );
    await app.ready();
    await until(() => lines.length > 0, 'the line');
    await app.close();
    const { msg, code } = JSON.parse(String(lines));
    assert.deepEqual([msg, code], ['could not delete old things; will retry later', '57014']);
    assert.doesNotMatch(String(lines), /a secret/);
    assert.equal(others, 0);
  });

  test('a batch contains the oldest of the expired rows', async () => {
    const { database } = instance();
    const [acme, beta] = [await instance().organization('acme'), await instance().organization('beta')];
    const tables = tablesOf(database);
    await sql`insert into crm_idempotency (organization_id, caller, path, key, body_hash, record, record_id, tag, created_at)
      select o, 'key 1', 'leads', n, '', '', 1, '', timestamptz '2026-03-01' - n * interval '1 hour'
      from unnest(array[${acme.id}, ${beta.id}]::bigint[]) o, generate_series(1, 300) n`.execute(tables);
    const remaining = async () => {
      const { rows } = await sql<{
        count: string;
        last: string;
      }>`select count(*) as count, max(key::int) as last
        from crm_idempotency`.execute(tables);
      return [Number(rows[0]?.count), Number(rows[0]?.last)];
    };
    const removed = () =>
      deleteExpired(
        tables,
        'crm_idempotency',
        ['organization_id', 'caller', 'path', 'key'],
        sql`created_at < timestamptz '2026-02-28 14:30'`,
        'created_at',
      );
    assert.equal(await removed(), retentionBatch);
    assert.deepEqual(await remaining(), [100, 50]);
    if (instance().driver === 'postgresql') {
      // Rows that another transaction has locked are not waited for.
      await transaction(database, async (locking) => {
        await sql`select from crm_idempotency where key = '49' for update`.execute(locking);
        assert.equal(await removed(), 80);
      });
      assert.deepEqual(await remaining(), [20, 49]);
    }
    await removed();
    assert.deepEqual(await remaining(), [18, 9]);
  });

  test('each rule deletes only old rows, whatever columns they share with newer ones', async () => {
    const tables = tablesOf(instance().database);
    const [own, other] = [
      await instance().organization('old-rows'),
      await instance().organization('other-rows'),
    ];
    const [first, second] = [(await own.makeKey()).id, (await own.makeKey()).id];
    const organization_id = own.id;
    const foreign = { organization_id: other.id };
    const ofForeignKey = { ...foreign, key_id: (await other.makeKey()).id };
    const results: (readonly [table: string, deleted: number, missing: number])[] = [];
    const call = { organization_id, key_id: first, tool: 'get', resource: '', request_id: '' };
    for (const [step, table, age, row, others] of [
      [
        mergesRetention,
        'crm_merges',
        'merged_at',
        { organization_id, resource: 'leads', record_id: '1', from_id: '2', before: '' },
        [foreign, { resource: 'cases' }, { record_id: '3' }, { from_id: '4' }],
      ],
      [
        idempotencyRetention,
        'crm_idempotency',
        'created_at',
        {
          ...{ organization_id, caller: 'key 1', path: 'leads', key: 'a' },
          ...{ body_hash: '', record: '', record_id: '1', tag: '' },
        },
        [foreign, { caller: 'key 2' }, { path: 'cases' }, { key: 'b' }],
      ],
      [
        usageRetention,
        'crm_name_uses',
        'last_used_at',
        { organization_id, key_id: first, resource: 'leads', name: 'email' },
        [ofForeignKey, { key_id: second }, { resource: 'cases' }, { name: 'phone' }],
      ],
      [
        agentCallsRetention,
        'crm_agent_calls',
        'at',
        { ...call, records_read: 0, records_written: 0 },
        [ofForeignKey, { key_id: second }, {}],
      ],
      [
        proposalsRetention,
        'crm_proposals',
        'expires_at',
        { organization_id, key_id: first, tool: 'get', resource: '', action: '', body: '', tag: '' },
        [ofForeignKey, { key_id: second }, {}],
      ],
    ] as const) {
      await sql`delete from ${sql.table(table)}`.execute(tables);
      for (const [days, more] of [[400, {}], ...others.map((each) => [0, each] as const)] as const) {
        const values = { ...row, ...more };
        const names = Object.keys(values).map((name) => sql.ref(name));
        await sql`insert into ${sql.table(table)} (${sql.join([...names, sql.ref(age)])})
          values (${sql.join(Object.values(values))}, now() - ${days}::int * interval '1 day')`.execute(
          tables,
        );
      }
      const deleted = await step(tables);
      const { rows } = await sql`select from ${sql.table(table)}`.execute(tables);
      results.push([table, deleted, others.length - rows.length]);
    }
    assert.deepEqual(
      results,
      results.map(([table]) => [table, 1, 0]),
    );
  });
});
