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
import { listNodes, nodesIn, registerNode } from '../../engine/schema/nodes.ts';
import { stateOf } from '../../engine/schema/plan.ts';
import { migrationLock, type SessionRow } from '../../engine/schema/session.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { within } from '../support/promised.ts';

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
      const making = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like 'create index concurrently%' and wait_event_type = 'Lock'`;
      await Promise.all([
        assert.rejects(applyPending(own, model.config)),
        until(async () => (await model.sql(making)).length > 0, 'end the connection'),
      ]);
    });
    await own.close();
    await migrate();
    assert.deepEqual(await model.drift(), []);
  });

  test('waits for a step without ending the idle session that holds the lock', async () => {
    write('  name: { type: string, nullable: true }\n', 'filters: [name, created_at]\n');
    await model.create();
    const own = await openDatabase({ ...model.config, statementTimeoutMs: 0, lockTimeoutMs: 0, pool: 2 }, []);
    const inTransaction = (work: () => Promise<unknown>) =>
      own.orm.em.fork().transactional(async (em) => {
        await work();
        await em
          .getConnection()
          .execute('set idle_in_transaction_session_timeout = 500', [], 'run', em.getTransactionContext());
      });
    // Both connections.
    await inTransaction(() => inTransaction(async () => {}));
    let migrated: Promise<readonly string[]> | undefined;
    await beforeWriterEnds(async () => {
      migrated = applyPending(own, model.config);
      const idle = `select from pg_stat_activity where datname = current_database() and state = 'idle in transaction' and query like 'set local idle%' and state_change < clock_timestamp() - interval '1 second'`;
      await Promise.race([migrated, until(async () => (await model.sql(idle)).length > 0, 'be idle')]);
    });
    assert.equal((await migrated)?.length, 1);
    await own.close();
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
  const withOldNode = (name = 'old') =>
    model.sql(
      `insert into crm_nodes (name, migrations, views, sees_views, seen_at) values ('${name}', '[]', 'crm_views_${name}', true, now() + interval '1 hour') on conflict (name) do update set seen_at = excluded.seen_at`,
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

  /** Checks that a node does not wait for another node that is migrating, which holds the lock. */
  const contractDuringMigration = () =>
    connected(String(model.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query(`select pg_advisory_xact_lock(${migrationLock})`);
      assert.equal(await within(60_000, contract(model.config, model.database)), false);
      await client.query('commit');
    });

  test('continues after the node that used views is gone', async () => {
    write(
      '  title: { type: string, renamed_from: name }\n  score: { type: integer }\n',
      'filters: [title, score]\n',
    );
    await model.create();
    await migrate();
    await withOldNode();
    write(
      '  text: { type: string, renamed_from: title }\n  score: { type: string }\n',
      'filters: [text, score]\n',
    );
    await model.create();
    await interruptedAt(`[{"swap"%`);
    // The completed steps of the unfinished migration are not reported as differences.
    const { pending, unfinished, drift } = await stateOf(model.database, model.config);
    assert.deepEqual([pending, drift], [[], []]);
    assert.match(
      unfinished.join(),
      /^Migration\d+_m\d+ is not finished: 2 steps remain on things\. Unless it is still running, run "crm migrate" to finish it\.$/,
    );
    // Earlier versions did not store the names of the replaced indexes and foreign keys.
    await model.sql(
      `update crm_migrations set remaining = (remaining::jsonb #- '{1,swap,known}')::text where remaining like '%"known":["things_score_index"]%'`,
    );
    assert.deepEqual(
      await model.sql(
        `select (remaining like '%known%')::text from crm_migrations where remaining is not null`,
      ),
      [['false']],
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
    await contractDuringMigration();
    assert.equal(await contract(model.config, model.database), true);
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(await model.sql(`select note from things where text = 'by the old node'`), [['']]);
    assert.equal(await contract(model.config, model.database), false);
  });

  const fields = (...lines: readonly string[]) => write(lines.map((line) => `  ${line}\n`).join(''));
  const waiting = () =>
    model.sql('select (remaining is null)::text from crm_migrations where contract is not null order by id');

  test('continues a contraction under the new name of its field, before the contraction of a later migration', async () => {
    const text = 'text: { type: string }';
    fields(text, 'score: { type: string }', 'due: { type: date, nullable: true }');
    await model.create({ drop: ['things.note'] });
    await migrate();
    await model.sql(`update things set due = '2026-11-29'`);
    await withOldNode();
    fields(text, 'score: { type: string }', 'due: { type: date, required: true }');
    await model.create();
    fields(text, 'day: { type: date, required: true, renamed_from: due }');
    await model.create({ drop: ['things.score'] });
    assert.equal((await migrate()).length, 2);
    await stopOldNode();
    await interruptedAt('%drop constraint%', 'old', () => contract(model.config, model.database));
    assert.deepEqual(await waiting(), [['false'], ['true']]);
    assert.equal(await contract(model.config, model.database), true);
    assert.deepEqual(await waiting(), []);
    assert.deepEqual(await model.drift(), []);
  });

  test('finishes a contraction before another contraction drops its column, and before a migration renames another one', async () => {
    const text = 'text: { type: string }';
    fields(text, 'day: { type: date, nullable: true }', 'due: { type: date, nullable: true }');
    await model.create();
    await migrate();
    await model.sql(`update things set day = '2026-11-29', due = '2026-11-29'`);
    await withOldNode();
    fields(text, 'day: { type: date, required: true }', 'due: { type: date, required: true }');
    await model.create();
    fields(text, 'due: { type: date, required: true }');
    await model.create({ drop: ['things.day'] });
    assert.equal((await migrate()).length, 2);
    await stopOldNode();
    fields(text, 'deadline: { type: date, required: true, renamed_from: due }');
    await model.create();
    assert.equal((await migrate()).length, 2);
    assert.deepEqual(await waiting(), []);
    assert.deepEqual(await model.drift(), []);
  });

  test('keeps values that an older node cannot see when it changes another field', async () => {
    write('  score: { type: integer }\n  code: { type: integer }\n');
    await model.create({ drop: ['things.text', 'things.deadline'] });
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
    await grant('read');
    await withOldNode();
    write('  code: { type: string }\n');
    await model.create({ drop: ['things.score'] });
    named('items', 'things');
    await model.create();
    named('wares', 'items');
    await model.create();
    await migrate();
    await grant('update');
    await model.sql(`delete from crm_grants where object in ('things', 'things.inner') and action = 'read'`);
    // The older node also writes the change log, and stores responses: one to a request that an updated node has answered, too.
    await model.sql(
      `insert into crm_ledger (organization_id, actor_kind, action, object) values (1, 'key', 'create', 'things')`,
    );
    assert.deepEqual(await model.sql(`select object from crm_ledger where actor_kind = 'key'`), [['wares']]);
    await model.sql(
      `insert into crm_idempotency (organization_id, caller, path, key, body_hash, record, record_id, tag)
       select 1, 'key 1', path, key, path, '', 1, '' from (values ('wares', 'a'), ('things', 'a'), ('things/batch', 'b'), ('thingses', 'c')) v (path, key)`,
    );
    assert.equal(await grants(), 'items,update,things,update,wares,update');
    assert.equal(await grants(inner), 'items.inner,update,things.inner,update,wares.inner,update');
    await finished();
    assert.equal(await grants(), 'wares,update');
    assert.equal(await grants(inner), 'wares.inner,update');
    assert.deepEqual(await model.sql('select path, body_hash from crm_idempotency order by 1'), [
      ['thingses', 'thingses'],
      ['wares', 'wares'],
      ['wares/batch', 'things/batch'],
    ]);
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

  test('continues the interrupted migrations of two tables before a later one changes them', async () => {
    const definitions = (name: string, wareFilters: string, potFilters: string) =>
      model.write({
        wares: `common: all\nfields:\n  code: { type: string }\n  telefax: { type: string }\nfilters: [${wareFilters}]\n`,
        pots: `common: all\nfields:\n  ${name}: { type: string${name === 'name' ? '' : ', renamed_from: name'} }\n${potFilters}`,
      });
    definitions('name', 'telefax', '');
    await model.create();
    await migrate();
    await model.sql('insert into pots (organization_id, created_at, updated_at) values (1, now(), now())');
    definitions('name', 'telefax, created_at', '');
    await model.create();
    definitions('name', 'telefax, created_at', 'filters: [name, created_at]\n');
    await model.create();
    // The first migration is complete, and the second has a step less.
    await interruptedAt('[{"table":"pots"%');
    definitions('title', 'telefax', 'filters: [title, created_at]\n');
    await model.create();
    assert.equal((await migrate()).length, 2);
    assert.deepEqual(await model.drift(), []);
    model.write({
      wares:
        'common: all\nfields:\n  code: { type: string }\n  telefax: { type: string }\nfilters: [telefax]\n',
    });
    await model.create({ drop: ['pots'] });
    await migrate();
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

  test('names a view on a column that a type change drops, before the migration and before its last step', async () => {
    const sold = (type: string) =>
      model.write({
        wares: `common: all\nfields:\n  code: { type: string }\n  sold_at: { type: ${type}, nullable: true }\n`,
      });
    sold('timestamp');
    await model.create({ drop: ['wares.telefax'] });
    await migrate();
    sold('string');
    await model.create();
    const createView = () => model.sql('create view offsets as select sold_at_offset from wares');
    const dropView = () => model.sql('drop view offsets');
    const isRejected = (progress: string) =>
      assert.rejects(migrate(), {
        name: 'UserError',
        message: `the type of wares.sold_at, wares.sold_at_offset cannot change, because the migration would drop objects that no migration created: view offsets. ${progress} Drop it, migrate, then create it again.`,
      });
    await createView();
    await isRejected('Nothing was migrated.');
    await dropView();
    await interruptedAt('[{"swap"%');
    await createView();
    await isRejected('Everything else has been applied; the next run continues from here.');
    await dropView();
    assert.equal((await migrate()).length, 1);
    assert.deepEqual(await model.drift(), []);
  });

  const coded = (type: string) =>
    model.write({ wares: `common: all\nfields:\n  code: { type: ${type}, nullable: true }\n` });

  test('completes a type change before the next migration renames the table that a field now references', async () => {
    const shelved = (shelf: string, name: string, more = '') =>
      model.write({
        wares: `common: all\nfields:\n  code: { type: string }\n  shelf_id: { type: ${shelf}, nullable: true }\n`,
        [name]: `common: all\n${more}fields:\n  name: { type: string }\n`,
      });
    shelved('string', 'shelves');
    await model.create({ drop: ['wares.sold_at'] });
    await migrate();
    await model.sql(
      `insert into shelves (organization_id, id, created_at, updated_at) values (1, 7, now(), now())`,
    );
    await model.sql(`update wares set shelf_id = '7'`);
    shelved('reference, to: shelves', 'shelves');
    await model.create();
    shelved('reference, to: racks', 'racks', 'renamed_from: shelves\n');
    await model.create();
    assert.equal((await migrate()).length, 2);
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(await model.sql('select distinct shelf_id::text from wares'), [['7']]);
  });

  test('lets updated nodes delete records that a removed resource references', async () => {
    const racks = 'common: all\nrenamed_from: shelves\nfields:\n  name: { type: string }\n';
    const boxes =
      'common: all\nfields:\n  rack_id: { type: reference, to: racks, required: true, on_delete: restrict }\n';
    const wares = 'common: all\nfields:\n  code: { type: string }\n';
    model.write({ wares, racks, boxes });
    await model.create({ drop: ['wares.shelf_id'] });
    await migrate();
    await model.sql(
      `insert into boxes (organization_id, rack_id, created_at, updated_at) values (1, 7, now(), now())`,
    );
    await withOldNode();
    model.write({ wares, racks });
    await model.create({ drop: ['boxes'] });
    await migrate();
    assert.deepEqual(await model.sql('select rack_id::text from boxes'), [['7']]);
    await model.sql('delete from racks');
    await finished();
    assert.deepEqual(await model.sql(`select to_regclass('boxes')::text`), [[null]]);
  });

  test('an older node that cannot see views prevents a change of types, before anything is migrated', async () => {
    coded('string');
    await model.create({ drop: ['racks'] });
    await migrate();
    for (const name of ['old', 'older']) await withOldNode(name);
    await model.sql(`update crm_nodes set sees_views = false where name = 'older'`);
    coded('integer');
    await model.create();
    await assert.rejects(migrate(), /converts a table or column, and node older .* Nothing was migrated\./);
    await model.discard();
    await stopOldNode();
  });

  test('a rename alone is visible in the views of older nodes, which are dropped after they have stopped', async () => {
    model.write({
      wares: 'common: all\ntrash: 30 days\nfields:\n  code: { type: string, nullable: true }\n',
    });
    await model.create();
    await migrate();
    for (const name of ['old', 'older']) await withOldNode(name);
    await model.sql('update crm_nodes set sees_views = true');
    model.write({
      wares:
        'common: all\ntrash: 30 days\nfields:\n  number: { type: string, nullable: true, renamed_from: code }\n',
    });
    await model.create();
    await migrate();
    await model.sql(`update crm_views_old.wares set code = '5', "_trashed_at" = '2026-03-01T10:00:00Z'`);
    assert.deepEqual(
      await model.sql(`select distinct number, ("_trashed_at" at time zone 'UTC')::text from wares`),
      [['5', '2026-03-01 10:00:00']],
    );
    assert.deepEqual(
      await model.sql('select distinct code, ("_version" > 1)::text from crm_views_older.wares'),
      [['5', 'true']],
    );
    // A role can use the view if it can use the table.
    await connected(String(model.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query('create role older_node');
      const codes = async () => {
        await client.query('savepoint before; set local role older_node');
        try {
          return (await client.query('select distinct code from crm_views_old.wares')).rows;
        } finally {
          await client.query('rollback to before');
        }
      };
      await assert.rejects(codes(), { code: '42501', message: 'permission denied for table wares' });
      await client.query('grant select on wares to older_node');
      assert.deepEqual(await codes(), [{ code: '5' }]);
      await client.query('rollback');
    });
    await finished();
  });

  test('older and updated nodes each store values that the others cannot see, and completing the change does not wait for locks', async () => {
    const typed = (code: string, size: string, seen: string) =>
      model.write({
        wares: `common: all\nfields:\n  code: { type: ${code}, required: true }\n  size: { type: ${size} }\n  seen: { type: ${seen}, nullable: true }\n`,
      });
    await model.sql('delete from wares');
    typed('date', 'string', 'timestamp');
    await model.create({ drop: ['wares.number'] });
    await migrate();
    await withOldNode();
    typed('string', 'integer', 'string');
    await model.create();
    await migrate();
    await model.sql(
      `insert into wares (organization_id, code, size, seen, created_at, updated_at) values (1, 'soon', 5, '2026-03-01T12:00:00+02:00', now(), now())`,
    );
    assert.deepEqual(
      await model.sql(
        `select code::text, size, (seen at time zone 'UTC')::text, seen_offset from crm_views_old.wares`,
      ),
      [[null, '5', '2026-03-01 10:00:00', '+02:00']],
    );
    await model.sql(`update crm_views_old.wares set size = 'large'`);
    assert.deepEqual(await model.sql('select code::text, size::text, seen from wares'), [
      ['soon', '0', '2026-03-01T12:00:00+02:00'],
    ]);
    await stopOldNode();
    await contractDuringMigration();
    // Contraction does not wait for a lock, because other statements would queue behind it.
    await connected(String(model.environment.DATABASE_URL), async (client) => {
      await client.query('begin');
      await client.query('select from wares');
      assert.equal(await contract(model.config, model.database), false);
      await client.query('commit');
    });
    assert.equal(await contract(model.config, model.database), true);
    await finished();
  });

  test("shows an older node a converted timestamp in UTC, whatever the session's time zone", async () => {
    await model.sql('delete from wares');
    coded('string');
    await model.create({ drop: ['wares.size', 'wares.seen'] });
    await migrate();
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

  test('counts lock timeouts and deadlocks for each batch, which succeeds after up to 59', async () => {
    coded('string');
    await model.create();
    await interruptedAt('[{"fill"%', 'old');
    await model.sql('create sequence timeouts');
    // A sequence keeps its value when the batch is rolled back. The first batch succeeds at the 60th attempt.
    await model.sql(`create function times_out() returns trigger language plpgsql as $$ begin
      if nextval('timeouts') not in (60, 62) then
        raise 'conflict' using errcode = case currval('timeouts') % 2 when 0 then 'lock_not_available' else 'deadlock_detected' end;
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
    const code = { model: modelOf(model.resources()), migrations: migrations.slice(0, -2) };
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

  test('nodes are considered running for 15 seconds, and register only after a migration that depends on them', async () => {
    const age = (name: string, age: string) =>
      `insert into crm_nodes (name, migrations, views, sees_views, seen_at) values ('${name}', '["m1"]', 'crm_views_x', true, now() - interval '${age}')`;
    const namesOf = async () => (await model.sql('select name from crm_nodes')).flat().sort();
    await connected(String(model.environment.DATABASE_URL), async (client) => {
      const execute = async (sql: string) => (await client.query<SessionRow>(sql)).rows;
      // Within a transaction, the time does not change.
      await client.query('begin');
      await client.query(age('running', '14.9 seconds'));
      await client.query(age('stopped', '15 seconds'));
      for (const list of [listNodes, nodesIn, listNodes])
        assert.deepEqual(
          (await list(execute)).map(({ name, migrations }) => [name, migrations]),
          [['running', ['m1']]],
        );
      assert.deepEqual(await execute('select name from crm_nodes'), [{ name: 'running' }]);
      await client.query('rollback');
      await client.query('begin');
      await nodesIn(execute);
      const register = () =>
        registerNode(model.database, ['m1', 'm2'], { check: async () => {}, lost: assert.fail });
      const registered = register();
      for (let times = 0; times < 50; times++) assert.deepEqual(await namesOf(), []);
      await client.query('rollback');
      const node = (await registered) ?? assert.fail();
      const [own, ...others] = await listNodes(execute);
      assert.deepEqual([own?.migrations, own?.seesViews, others], [['m1', 'm2'], false, []]);
      assert.match(own?.description ?? '', /^node \S+ \(latest migration: m2, running since /);
      // Rows of nodes that stopped long ago are removed.
      await client.query(age('a day ago', '23 hours'));
      await client.query(age('two days ago', '25 hours'));
      const next = (await register()) ?? assert.fail();
      assert.equal((await namesOf()).length, 3);
      assert.ok(!(await namesOf()).includes('two days ago'));
      await node.beat();
      const silent = `select name from crm_nodes where seen_at < now() - interval '22 hours'`;
      assert.deepEqual(await model.sql(silent), [['a day ago']], 'a heartbeat is only for its node');
      await next.leave();
      assert.deepEqual(await namesOf(), ['a day ago', own?.name].sort());
      await node.leave();
      assert.deepEqual(await namesOf(), ['a day ago']);
    });
  });
});
