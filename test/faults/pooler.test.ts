// PgBouncer in transaction mode between the service and PostgreSQL is detected, and everything works through
// it.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { modelOf } from '../../app/instance.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { migrate } from '../../engine/schema/apply.ts';
import {
  type Answer,
  type Instance,
  type Organization,
  postgresServer,
  startInstance,
} from '../support/instance.ts';
import { noPooler, type Pooler, startPooler } from '../support/pooler.ts';
import { connected, makeDatabase } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

/** Three connections serve every request, so waits are long on a busy machine. */
const pool = { ...patient, DATABASE_POOL: '8' };
/** Limits that statements reach. */
const limits = { DATABASE_STATEMENT_TIMEOUT_MS: '1500', DATABASE_LIST_TIMEOUT_MS: '1000' };

/** How a pooler treats settings that it cannot share: it rejects the connection or silently ignores them. */
const kinds = { 'refuses settings': {}, 'ignores settings': { ignore_startup_parameters: 'options' } };

for (const [kind, settings] of Object.entries(kinds)) {
  describe(`through PgBouncer that ${kind}`, { concurrency: 1, skip: noPooler }, () => {
    let direct: { url: string; drop: () => Promise<void> };
    let pooler: Pooler;
    let instance: Instance;
    let acme: Organization;
    let environment: Record<string, string>;

    before(async () => {
      direct = await makeDatabase(await postgresServer());
      pooler = await startPooler(direct.url, settings);
      environment = { ...pool, DATABASE_URL: pooler.url };
    });
    after(async () => {
      await instance?.close();
      await pooler?.stop();
      await direct?.drop();
    });

    test('applies each migration once on nodes that start together', async () => {
      const config = readConfig(environment);
      const applied = await Promise.all([1, 2, 3].map(() => migrate(config, modelOf([]))));
      assert.equal(applied.filter((names) => names.length > 0).length, 1, JSON.stringify(applied));
      await connected(direct.url, async (client) => {
        const { rows } = await client.query(
          'select count(*)::int as all, count(distinct name)::int as names from crm_migrations',
        );
        assert.deepEqual(rows[0], { all: applied.flat().length, names: applied.flat().length });
        const locks = await client.query(
          `select 1 from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
        );
        assert.equal(locks.rowCount, 0, 'the lock is released');
      });
      instance = await startInstance('postgresql', { environment });
      acme = await instance.organization('acme');
    });

    test('serves more concurrent requests than there are connections', async () => {
      const { key } = acme;
      const made = await Promise.all(
        Array.from({ length: 30 }, (_, index) =>
          instance.call('POST /api/v1/leads', { key, body: { last_name: `lead ${index}` } }),
        ),
      );
      assert.deepEqual(new Set(made.map(({ status }) => status)), new Set([201]), made[0]?.text);
      const ids = made.map(({ json }) => json.id);
      // Run several rounds, in which a named statement would reach a connection on which it is not prepared.
      for (let round = 0; round < 5; round++) {
        const all = await Promise.all(
          ids.flatMap((id) => [
            instance.call(`GET /api/v1/leads/${id}`, { key }),
            instance.call('GET /api/v1/leads', { key }),
            instance.call(`PUT /api/v1/leads/${id}`, { key, body: { last_name: 'again' } }),
          ]),
        );
        const failed = all.find(({ status }) => status !== 200);
        assert.equal(failed, undefined, failed?.text);
      }
    });

    test('cancels statements that time out, on the server too', async (t) => {
      const { key } = acme;
      const limited = await startInstance('postgresql', { environment: { ...environment, ...limits } });
      t.after(limited.close);
      await connected(direct.url, async (client) => {
        await client.query('begin');
        await client.query('lock table leads in access exclusive mode');
        // Only their timeouts can end these requests, because the lock is held until then. A busy server can be so
        // late to cancel them that they fail with 500.
        const isTooSlow = ({ status, json }: Answer) => {
          assert.ok(status === 503 || status === 500, `${status}`);
          return status === 503 && json.code === 'too_slow';
        };
        await until(async () => {
          const answers = await Promise.all([
            limited.call('GET /api/v1/leads', { key }),
            limited.call('POST /api/v1/leads', { key, body: { last_name: 'waits' } }),
          ]);
          return answers.every(isTooSlow);
        }, 'be too slow');
        await until(async () => {
          // Statistics do not change within a transaction.
          await client.query('select pg_stat_clear_snapshot()');
          const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
          return (await client.query(waiting)).rowCount === 0;
        }, 'no statement to wait');
        await client.query('rollback');
      });
      await until(
        async () => (await limited.call('GET /api/v1/leads', { key })).status === 200,
        'serve again',
      );
    });

    test('DATABASE_POOLER=none: connects as if there were no pooler', async () => {
      const opened = openDatabase(readConfig({ ...environment, DATABASE_POOLER: 'none' }), []);
      if ('ignore_startup_parameters' in settings) return (await opened).close();
      await assert.rejects(opened, {
        name: 'UserError',
        message: /does not respond: unsupported startup parameter: options/,
      });
    });
  });
}

test('DATABASE_POOLER=transaction: uses no session state, even without a pooler', async () => {
  const { url, drop } = await makeDatabase(await postgresServer());
  const database = await openDatabase(
    readConfig({ ...patient, DATABASE_URL: url, DATABASE_POOLER: 'transaction' }),
    [],
  );
  try {
    const run = (text: string) => database.run({ name: 'named', text, values: [] });
    await run('select 1::text');
    assert.deepEqual(await run('select name from pg_prepared_statements'), []);
    assert.deepEqual(await run(`select current_setting('statement_timeout')`), [['0']]);
    const named = (lane: 'list' | 'write', text: string) => ({
      lane,
      name: `${lane}: ${text}`,
      text,
      values: [],
    });
    const prepared = 'select name from pg_prepared_statements';
    await database.run(named('list', 'select 1::text'));
    assert.deepEqual(await database.run(named('list', prepared)), []);
    const inTransaction = database.atomically(
      async (runInside) => {
        await runInside(named('write', 'select 1::text'));
        return runInside(named('write', prepared));
      },
      { organization: '1', access: 'write', lane: 'batch' },
    );
    assert.deepEqual(await inTransaction, []);
  } finally {
    await database.close();
    await drop();
  }
});
