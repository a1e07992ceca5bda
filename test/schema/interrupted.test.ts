// Interrupted migrations, and nodes that start and stop during them (PostgreSQL).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelOf } from '../../app/instance.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { assertCompatible } from '../../engine/schema/compatibility.ts';
import { contract } from '../../engine/schema/contract.ts';
import { finishMigrations } from '../../engine/schema/finish.ts';
import { migrationNames, readMigrationLog } from '../../engine/schema/migration-log.ts';
import { stateOf } from '../../engine/schema/plan.ts';
import type { SessionRow } from '../../engine/schema/session.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;

suite('a migration that is interrupted', { concurrency: 1 }, () => {
  let model: Model;
  const migrate = () => applyPending(model.database, model.config);
  const write = (fields: string, more = '') =>
    model.write({ things: `common: all\nfields:\n${fields}${more}` });
  const insert = `insert into things (organization_id, created_at, updated_at) values (1, now(), now())`;

  before(async () => {
    model = await modelWith('postgresql');
    write('  name: { type: string, nullable: true }\n');
    await model.create();
    await migrate();
    await model.sql(insert);
  });
  after(() => model.close());

  /** Runs work during an open write transaction that index builds wait for. */
  const beforeWriterEnds = (work: () => Promise<void>) =>
    connected(String(model.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query(insert);
      await work();
      await client.query('commit');
    });

  /**
   * Migrates with a failure when the given remaining steps are about to be stored ("new") or replaced
   * ("old").
   */
  const interruptedAt = async (
    remaining: string,
    at: 'old' | 'new' = 'new',
    work: () => Promise<unknown> = migrate,
  ) => {
    await model.sql(
      `create function fails() returns trigger language plpgsql as $$ begin raise 'interrupted'; end $$`,
    );
    await model.sql(
      `create trigger fails before update on crm_migrations for each row when (${at}.remaining like '${remaining}') execute function fails()`,
    );
    await assert.rejects(work(), /interrupted/);
    await model.sql('drop function fails() cascade');
  };

  test('rebuilds an index after an interrupted build', async () => {
    write('  name: { type: string, nullable: true }\n', 'filters: [name]\n');
    await model.create();
    const own = await openDatabase({ ...model.config, statementTimeoutMs: 0, lockTimeoutMs: 0 }, []);
    await beforeWriterEnds(async () => {
      const making = `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and query like 'create index concurrently%' and wait_event_type = 'Lock'`;
      await Promise.all([
        assert.rejects(applyPending(own, model.config)),
        until(async () => (await model.sql(making)).length > 0, 'end the connection'),
      ]);
    });
    await own.close();
    await migrate();
    assert.deepEqual(await model.drift(), []);
  });

  test('commits a step together with its record', async () => {
    write('  name: { type: string }\n', 'filters: [name]\n');
    await model.create();
    await interruptedAt('[{"table":"things","sql":"alter table%drop constraint%filled%"}]', 'old');
    await migrate();
    assert.deepEqual(await model.drift(), []);
  });

  /** Registers a node whose version does not include the later migrations. It counts as running until it is stopped. */
  const withOldNode = () =>
    model.sql(
      `insert into crm_nodes (name, migrations, views, sees_views, seen_at) values ('old', '[]', 'crm_views_old', true, now() + interval '1 hour') on conflict (name) do update set seen_at = excluded.seen_at`,
    );
  const stopOldNode = () => model.sql('delete from crm_nodes');
  const finished = async () => {
    await stopOldNode();
    await contract(model.config, model.database);
    await migrate();
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(
      await model.sql(`select nspname::text from pg_namespace where nspname like 'crm_views%'`),
      [],
    );
  };

  test('continues after the node that used views is gone', async () => {
    write(
      '  title: { type: string, renamed_from: name }\n  score: { type: integer }\n',
      'filters: [title]\n',
    );
    await model.create();
    await migrate();
    await withOldNode();
    write('  text: { type: string, renamed_from: title }\n  score: { type: string }\n', 'filters: [text]\n');
    await model.create();
    await interruptedAt(`[{"swap"%`);
    // The completed steps of the unfinished migration are not reported as differences.
    const { pending, unfinished, drift } = await stateOf(model.database, model.config);
    assert.deepEqual([pending, drift], [[], []]);
    assert.match(
      unfinished.join(),
      /^Migration\d+_m\d+ is not finished: 2 steps remain on things\. Unless it is still running, run "crm migrate" to finish it\.$/,
    );
    await stopOldNode();
    await migrate();
    await finished();
  });

  test('continues a contraction started by another node, while nodes start', async () => {
    write('  text: { type: string }\n  score: { type: string }\n  note: { type: string, nullable: true }\n');
    await model.create();
    await migrate();
    await withOldNode();
    write('  text: { type: string }\n  score: { type: string }\n  note: { type: string }\n');
    await model.create();
    await migrate();
    // Until the old node is gone, it can store records without a value, which the contraction fills.
    await model.sql(
      `insert into things (organization_id, text, score, note, created_at, updated_at) values (1, 'by the old node', '', null, now(), now())`,
    );
    await stopOldNode();
    await interruptedAt('%drop constraint%', 'old', () => contract(model.config, model.database));
    assert.deepEqual((await readMigrationLog(model.database, model.config)).pending, []);
    assert.equal(await contract(model.config, model.database), true);
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(await model.sql(`select note from things where text = 'by the old node'`), [['']]);
    assert.equal(await contract(model.config, model.database), false);
  });

  test('keeps values that an older node cannot see when it changes another field', async () => {
    write('  score: { type: integer }\n  code: { type: integer }\n');
    await model.create({ drop: ['things.text', 'things.note'], using: new Map([['things.score', "'0'"]]) });
    await migrate();
    await withOldNode();
    write('  score: { type: int64 }\n  code: { type: string }\n');
    await model.create();
    await migrate();
    await model.sql(`update things set score = 3000000000, code = 'new'`);
    await model.sql('update crm_views_old.things set code = 7');
    assert.deepEqual(await model.sql('select distinct score::text, code from things'), [['3000000000', '7']]);
    await finished();
  });

  test("applies an older node's grants and revocations under each name of a resource renamed twice", async () => {
    const named = (name: string, from: string) =>
      model.write({
        [name]: `renamed_from: ${from}\ncommon: all\nfields:\n  code: { type: string, group: inner }\n`,
      });
    await model.sql(`insert into crm_profiles (organization_id, name) values (1, 'Some')`);
    const grant = (action: string) =>
      model.sql(
        `insert into crm_grants (organization_id, profile_id, object, action) select 1, id, object, '${action}' from crm_profiles, (values ('things'), ('things.inner')) v (object) where name = 'Some'`,
      );
    const grants = async (suffix = '') =>
      String(
        await model.sql(
          `select object, action from crm_grants where object in ('things${suffix}', 'items${suffix}', 'wares${suffix}') order by 1, 2`,
        ),
      );
    const inner = '.inner';
    write('  code: { type: string }\n');
    await model.create({ drop: ['things.score'] });
    await migrate();
    await grant('read');
    await withOldNode();
    named('items', 'things');
    await model.create();
    named('wares', 'items');
    await model.create();
    await migrate();
    await grant('update');
    await model.sql(`delete from crm_grants where object in ('things', 'things.inner') and action = 'read'`);
    assert.equal(await grants(), 'items,update,things,update,wares,update');
    assert.equal(await grants(inner), 'items.inner,update,things.inner,update,wares.inner,update');
    await finished();
    assert.equal(await grants(), 'wares,update');
    assert.equal(await grants(inner), 'wares.inner,update');
  });

  test('finishes the steps of a migration before the next one changes the same table', async () => {
    const named = (field: string) =>
      model.write({
        wares: `common: all\nfields:\n  code: { type: string }\n  ${field}\nfilters: [${field.split(':')[0]}]\n`,
      });
    named('fax: { type: string }');
    await model.create();
    named('telefax: { type: string, renamed_from: fax }');
    await model.create();
    assert.equal((await migrate()).length, 2);
    assert.deepEqual(await model.drift(), []);
  });

  test('finishes the steps of a migration before the statements of a hand-written one run', async () => {
    model.write({
      wares:
        'common: all\nfields:\n  code: { type: string }\n  telefax: { type: string }\nfilters: [telefax, code]\n',
    });
    await model.create();
    const name = `${migrationNames(model.config).at(-1)}_by_hand`;
    model.writeMigration(
      `${name}.ts`,
      `import { Migration } from '@mikro-orm/migrations';
export class ${name} extends Migration {
  override up(): void {
    this.addSql('comment on index "wares_code_index" is $$by hand$$');
  }
}
`,
    );
    assert.equal((await migrate()).length, 2);
    assert.deepEqual(await model.sql(`select obj_description('wares_code_index'::regclass)`), [['by hand']]);
    assert.deepEqual(await model.drift(), []);
  });

  const coded = (type: string) =>
    model.write({ wares: `common: all\nfields:\n  code: { type: ${type}, nullable: true }\n` });

  test("shows an older node a converted timestamp in UTC, whatever the session's time zone", async () => {
    coded('string');
    await model.create({ drop: ['wares.telefax'] });
    await migrate();
    await model.sql('delete from wares');
    await model.sql(
      `insert into wares (organization_id, code, created_at, updated_at) values (1, '2026-03-01T10:00:00Z', now(), now())`,
    );
    await withOldNode();
    coded('timestamp');
    await model.create();
    await migrate();
    await connected(String(model.environment.DATABASE_URL), async (client) => {
      await client.query(`set time zone 'Asia/Tokyo'`);
      const times = async () => {
        const { rows } = await client.query(
          `select v.code as older, (w.code at time zone 'UTC')::text as newer from wares w join crm_views_old.wares v using (organization_id, id)`,
        );
        return rows;
      };
      await client.query(`update wares set code = '2026-03-01T12:00:00.5Z'`);
      assert.deepEqual(await times(), [
        { older: '2026-03-01T12:00:00.500000Z', newer: '2026-03-01 12:00:00.5' },
      ]);
      await client.query(`update crm_views_old.wares set code = '2026-03-02T10:00:00Z'`);
      assert.deepEqual(await times(), [{ older: '2026-03-02T10:00:00Z', newer: '2026-03-02 10:00:00' }]);
    });
    await finished();
  });

  test('counts lock timeouts for each batch, which succeeds after up to 59', async () => {
    coded('string');
    await model.create();
    await interruptedAt('[{"fill"%', 'old');
    await model.sql('create sequence timeouts');
    // A sequence keeps its value when the batch is rolled back. The first batch succeeds at the 60th attempt.
    await model.sql(`create function times_out() returns trigger language plpgsql as $$ begin
      if nextval('timeouts') not in (60, 62) then
        raise 'lock timeout' using errcode = 'lock_not_available';
      end if;
      return new;
    end $$`);
    await model.sql(
      `create trigger times_out before update on crm_migrations for each row when (old.remaining like '[{"fill"%') execute function times_out()`,
    );
    // Called directly, because a migration would start again after the 60th timeout.
    assert.equal((await finishMigrations(model.database, model.config)).length, 1);
    await model.sql('drop function times_out() cascade');
    assert.deepEqual(await model.sql('select last_value::text from timeouts'), [['62']]);
    await model.sql('drop sequence timeouts');
    assert.deepEqual(await model.drift(), []);
  });

  test('a node of an older version continues with tables that newer migrations extend, and stops if its statements would fail', async () => {
    const changes: readonly (readonly [change: string, problem?: string])[] = [
      ['add more text'],
      [`add more text not null default 'x'`],
      ['add more bigint generated by default as identity'],
      ['add more text not null generated always as (priority) stored'],
      ['add more text not null', 'the column cases.more is required, but this code does not set it'],
      ['alter priority type varchar', 'the column cases.priority is character varying, not text'],
      ['drop priority', 'the column cases.priority is missing'],
      ['rename to stuff', 'the table cases is missing'],
      ['drop priority, drop sla_due_date', 'the column cases.priority is missing, and 1 more'],
    ];
    const migrations = migrationNames(model.config);
    const code = { model: modelOf(model.resources()), migrations: migrations.slice(0, -1) };
    for (const [change, problem] of changes)
      await connected(String(model.environment.DATABASE_URL), async (client) => {
        await client.query('begin');
        await client.query(`alter table cases ${change}`);
        const execute = async (sql: string) => (await client.query<SessionRow>(sql)).rows;
        await assertCompatible(execute, model.config, { ...code, migrations });
        const checked = assertCompatible(execute, model.config, code);
        if (problem === undefined) await checked;
        else
          await assert.rejects(checked, {
            message: `the database is ahead of this code, which is not compatible with it: ${problem}. Start the version that includes ${migrations.at(-1)}`,
          });
        await client.query('rollback');
      });
  });
});
