// Migrations of tables with rows while other clients read and write them (PostgreSQL).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelOf } from '../../app/instance.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { migrate as applyAll, applyPending } from '../../engine/schema/apply.ts';
import { contract } from '../../engine/schema/contract.ts';
import { readMigrationLog } from '../../engine/schema/migration-log.ts';
import { planChanges, stateOf } from '../../engine/schema/plan.ts';
import { runChanges } from '../../engine/schema/run.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;
/** Set `ONLINE_ROWS=1000000` to measure the figures in docs/maintainers.md. */
const rows = Number(process.env.ONLINE_ROWS ?? 10_000);

suite('migrations while others write', { concurrency: 1 }, () => {
  let model: Model;
  const things = (more = '', filters = '') => ({
    things: `common: all\nfields:\n  name: { type: string }\n${more}${filters}`,
  });
  const url = () => String(model.environment.DATABASE_URL);
  const migrate = () => applyPending(model.database, model.config);

  before(async () => {
    model = await modelWith('postgresql');
    model.write(things());
    await model.create();
    await migrate();
    await model.sql('create schema elsewhere');
    await model.sql('create table elsewhere.scans (command text, lock text, rows bigint)');
    // Record migration commands that read the table's rows while holding a lock that blocks writes. The time
    // for which they block writes depends on the number of rows and on the machine.
    const read = `coalesce(pg_stat_get_xact_tuples_returned(to_regclass('things')), 0)`;
    const locks = `from pg_locks where pid = pg_backend_pid() and granted and relation = to_regclass('things')
      and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`;
    await model.sql(`
      create function elsewhere.before_command() returns event_trigger language plpgsql as $$ begin
        if not exists (select ${locks}) then
          perform set_config('scans.transaction', now()::text, false), set_config('scans.before', ${read}::text, false);
        end if;
      end $$`);
    const record = (command: string) => `
      if current_setting('scans.transaction', true) = now()::text then
        insert into elsewhere.scans select * from (
          select ${command}, mode, ${read} - current_setting('scans.before')::bigint as rows ${locks}) _s
        where rows > 100;
      end if;`;
    await model.sql(
      `create function elsewhere.after_command() returns event_trigger language plpgsql as $$ begin ${record('tg_tag')} end $$`,
    );
    await model.sql(
      `create function elsewhere.at_the_end() returns trigger language plpgsql as $$ begin ${record(`'the end'`)} return null; end $$`,
    );
    for (const when of ['before', 'after'])
      await model.sql(
        `create event trigger scans_${when} on ddl_command_${when === 'before' ? 'start' : 'end'} execute function elsewhere.${when}_command()`,
      );
    await model.sql(
      'create trigger scans after insert or update on crm_migrations execute function elsewhere.at_the_end()',
    );
    await model.sql(
      `insert into things (organization_id, name, created_at, updated_at) select 1, 'n' || n, now(), now() from generate_series(1, ${rows}) n`,
    );
  });
  after(() => model.close());

  /** Runs work while another client writes. @param column an additional column that the writes set */
  const writing = async (
    what: string,
    work: (moreWrites: (count: number) => Promise<void>) => Promise<unknown>,
    column = 'name',
  ) => {
    let isDone = false;
    let longest = 0;
    let count = 0;
    const writer = connected(url(), async (client) => {
      while (!isDone) {
        const start = performance.now();
        await client.query(
          `insert into things (organization_id, ${column}, created_at, updated_at) values (1, '${column === 'name' ? 'w' : ''}', now(), now())`,
        );
        const id = 1 + Math.floor((Math.random() * rows) / 2);
        await client.query(`update things set updated_at = now() where organization_id = 1 and id = ${id}`);
        longest = Math.max(longest, performance.now() - start);
        count++;
      }
    });
    const moreWrites = (more: number) => {
      const enough = count + more;
      return until(() => count >= enough, `${more} writes`);
    };
    await model.sql('truncate elsewhere.scans');
    await work(moreWrites).finally(() => {
      isDone = true;
    });
    await writer;
    if (rows > 100_000) console.log(`${what}: ${count} writes, the longest ${Math.round(longest)} ms`);
    assert.deepEqual(await model.sql('select * from elsewhere.scans'), [], what);
  };

  test('an index and a foreign key: they are valid afterwards, and no write waited for them', async () => {
    model.write(
      things(
        '  account_id: { type: reference, to: accounts, nullable: true }\n',
        'filters: [name, account_id]\n',
      ),
    );
    await model.create();
    await writing('an index and a reference', (moreWrites) =>
      connected(url(), async (client) => {
        // The migration cannot end before this transaction ends, and writes continue in the meantime.
        await client.query('begin');
        await client.query(`update things set name = 'held' where organization_id = 1 and id = ${rows}`);
        const migrated = migrate();
        await moreWrites(10);
        await client.query('commit');
        await migrated;
      }),
    );
    assert.deepEqual(await model.drift(), []);
    const [left] = await model.sql('select count(*)::text from crm_migrations where remaining is not null');
    assert.deepEqual(left, ['0']);
  });

  test('a lock that is held is not waited for: others continue, and it is tried again', async () => {
    model.write(
      things(
        '  account_id: { type: reference, to: accounts, nullable: true }\n  fax: { type: string }\n',
        'filters: [name, account_id]\n',
      ),
    );
    await model.create();
    /**
     * Returns the start time of the query waiting for a lock on the table, or an empty string if there is no
     * such query.
     */
    const attempt = async () =>
      String(
        await model.sql(
          `select a.query_start::text from pg_locks l join pg_stat_activity a using (pid)
            where not l.granted and l.relation = 'things'::regclass and l.mode = 'AccessExclusiveLock'`,
        ),
      );
    await writing('a column, while a lock is held', (moreWrites) =>
      connected(url(), async (client) => {
        await client.query('begin');
        await client.query('select from things limit 1');
        const migrated = migrate();
        // The migration tries to get the lock, gives up so that other clients can continue, and retries.
        const attempts = new Set<string>();
        await until(async () => {
          const found = await attempt();
          if (found !== '') attempts.add(found);
          return attempts.size >= 2;
        }, 'two attempts');
        await moreWrites(10);
        await client.query('commit');
        await migrated;
      }),
    );
    assert.deepEqual(await model.drift(), []);
  });

  test('a unique field, and one that is no longer nullable', async () => {
    const link = '  account_id: { type: reference, to: accounts, nullable: true }\n';
    const filters = 'filters: [name, account_id]\n';
    model.write(things(`${link}  fax: { type: string, nullable: true }\n`, filters));
    await model.create();
    await migrate();
    await model.sql(`update things set fax = 'f' || id where id % 1000 = 0`);
    model.write(things(`${link}  fax: { type: string, unique: true }\n`, filters));
    const statements = await model.create();
    assert.ok(
      statements.some((each) => /set not null/.test(each)) &&
        statements.some((each) => /unique index/.test(each)),
    );
    await migrate();
    assert.deepEqual(await model.drift(), []);
    const left = await model.sql(`select conname::text from pg_constraint where conname like '%filled'`);
    assert.deepEqual(left, []);
  });

  test('an index waits for writers, and no writer for it', async () => {
    const link = '  account_id: { type: reference, to: accounts, nullable: true }\n';
    model.write(
      things(`${link}  fax: { type: string, unique: true }\n`, 'filters: [name, account_id, fax]\n'),
    );
    await model.create();
    const insert = `insert into things (organization_id, name, created_at, updated_at) values (1, 'w', now(), now())`;
    await connected(url(), async (client) => {
      await client.query('begin');
      await client.query(insert);
      // The time limits of requests do not apply to the build.
      const limits = { lockTimeoutMs: 1, statementTimeoutMs: 1 };
      const migrated = applyAll({ ...model.config, ...limits }, modelOf(model.resources()));
      const left = `select from crm_migrations where remaining like '%create index concurrently%'`;
      await until(async () => (await model.sql(left)).length > 0, 'all else to be applied');
      const waits = `select from pg_stat_activity where datname = current_database() and query like 'create%index concurrently%' and wait_event_type = 'Lock'`;
      await until(async () => (await model.sql(waits)).length > 0, 'the index to wait');
      await connected(url(), (other) => other.query(insert));
      await client.query('commit');
      await migrated;
    });
    assert.deepEqual(await model.drift(), []);
  });

  test('one that was interrupted is pending, and continues', async () => {
    await model.sql('drop index things_name_index');
    const [name] = (await readMigrationLog(model.database, model.config)).applied.slice(-1);
    const left = JSON.stringify([
      'drop index concurrently if exists "things_name_index"',
      'create index concurrently "things_name_index" on "things" ("organization_id", left("name", 100), "id")',
    ]);
    await model.sql(`update crm_migrations set remaining = '${left}' where name = '${name}'`);
    assert.deepEqual((await readMigrationLog(model.database, model.config)).pending, [name]);
    assert.deepEqual(await migrate(), [name]);
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(await migrate(), []);
  });

  test('other types: records keep their versions, and what is written concurrently gets the new type too', async () => {
    const typed = (score: string, code: string) =>
      things(`  score: { type: ${score} }\n  code: { type: ${code} }\n`, 'filters: [name, score, code]\n');
    model.write(typed('integer', 'string'));
    await model.create({ drop: ['things.account_id', 'things.fax'] });
    await migrate();
    await model.sql(`update things set score = id % 1000, code = id % 1000, _version = 0`);
    const versions = `select min(_version), max(_version) from things where id between ${rows / 2 + 1} and ${rows}`;
    const before = String(await model.sql(versions));
    model.write(typed('int64', 'integer, min: 0'));
    await model.create();
    await writing('other types of two fields with indexes and a rule', async () => {
      let isOver = false;
      const migrated = migrate().finally(() => {
        isOver = true;
      });
      const filling = `select from crm_migrations where remaining like '%"fill"%'`;
      await until(async () => isOver || (await model.sql(filling)).length > 0, 'be under way');
      await model.sql(`update things set code = '77' where name = 'n1'`);
      await migrated;
    });
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(
      await model.sql(
        `select count(*)::text from things where name like 'n%' and name <> 'n1' and (score <> id % 1000 or code <> id % 1000)`,
      ),
      [['0']],
    );
    assert.deepEqual(await model.sql(`select code::text from things where name = 'n1'`), [['77']]);
    assert.equal(String(await model.sql(versions)), before);
    const left = await model.sql(`select conname::text from pg_constraint where conname like '%filled'`);
    assert.deepEqual(left, []);
  });

  test('every other change: no row is read while writes wait, and no write fails', async () => {
    const link = (name: string, more = '') =>
      `  ${name}: { type: reference, to: accounts, nullable: true${more} }\n`;
    const closed = 'type: string, enum: [draft, sold], closed: true, default: draft';
    const values = (email: string, state: string) =>
      '  tags: { type: list }\n  price: { type: money, currency: EUR, nullable: true }\n  details: { type: json, nullable: true }\n' +
      `  email: { ${email} }\n  state: { ${state.replace(/^type: string$/, 'type: string, default: draft')} }\n`;
    const parts = (values: string) =>
      `  parent_id: { type: reference, to: things, nullable: true }\n  parts: { type: integer, rollup: { ${values}, of: things, by: parent_id, stored: true } }\n`;
    const changes: readonly (readonly [what: string, fields: string, more?: string, column?: string])[] = [
      [
        'a field with a default',
        '  fax: { type: string, default: none }\n  note: { type: string, nullable: true }\n',
      ],
      [
        'another name',
        '  fax: { type: string, default: none }\n  memo: { type: string, nullable: true, renamed_from: note }\n',
      ],
      // Nodes that can write null are a separate case, because the migration waits for them.
      [
        'no longer nullable',
        '  fax: { type: string, default: none }\n  memo: { type: string }\n',
        '',
        'memo',
      ],
      ['unique', '  fax: { type: string, default: none }\n  memo: { type: string, unique: true }\n'],
      [
        'a shorter text, fewer values and a rule',
        '  fax: { type: string, default: none, max_length: 9, enum: [none], closed: true }\n  memo: { type: string, unique: true }\n',
      ],
      [
        'a check, and no rule',
        '  fax: { type: string, default: none }\n',
        'checks: [{ that: fax == "none" || name != "x", fields: [fax], message: Not none. }]\n',
      ],
      ['a search', '  fax: { type: string, default: none }\n', 'search: [name]\n'],
      ['a reference', link('account_id'), 'search: [name]\n'],
      ['a reference of another name', link('customer_id', ', renamed_from: account_id')],
      ['retired', link('customer_id', ', retired: true')],
      ['a drop', ''],
      ['a list, an amount, a document and two texts', values('type: string', 'type: string')],
      ['filters by a list and an amount', values('type: string', 'type: string'), 'filters: [tags, price]\n'],
      ['a format and closed values', values('type: string, format: email', closed)],
      ['unique without case', values('type: string, format: email, unique: true', closed)],
      [
        'transitions and a calculated default',
        `${values('type: string, format: email, unique: true', `${closed}, transitions: { draft: [sold] }`)}  due_at: { type: timestamp, nullable: true, default_from: now }\n`,
      ],
      ['a trash', values('type: string, format: email, unique: true', closed), 'trash: 30 days\n'],
      ['no trash', values('type: string, format: email', closed)],
      ['a list of references', '  account_ids: { type: references, to: accounts }\n'],
      [
        'a reference to one of two resources',
        '  subject: { type: reference, to: [accounts, contacts], nullable: true }\n',
      ],
      ['another drop', ''],
      ['a computed field', '  double: { type: int64, computed: id * 2 }\n', 'filters: [name, double]\n'],
      ['another expression', '  double: { type: int64, computed: id * 3 }\n', 'filters: [name, double]\n'],
      ['a reference to the same resource', '  parent_id: { type: reference, to: things, nullable: true }\n'],
      ['a stored rollup', parts('count: true'), 'filters: [name, parts]\n'],
      ['another condition', parts('count: true, where: name != ""'), 'filters: [name, parts]\n'],
      ['a sequence', '  number: { type: string, sequence: "N-{0000}" }\n', 'filters: [name, number]\n'],
      ['another drop', ''],
      ['a lock', '', 'locked: name == "closed"\n'],
      ['another lock', '', 'locked: { when: name == "paid", message: Paid. }\n'],
      ['custom fields', '', 'custom_fields: true\n'],
      ['the last drop', ''],
    ];
    for (const [what, fields, more = '', column] of changes) {
      model.write(things(fields, more.startsWith('filters:') ? more : `filters: [name]\n${more}`));
      const drop = [
        ...['score', 'code', 'fax', 'memo', 'customer_id', 'tags', 'price', 'details', 'email', 'state'],
        ...[
          'due_at',
          'account_ids',
          'subject_account_id',
          'subject_contact_id',
          'number',
          'parent_id',
          'custom',
        ],
      ].map((name) => `things.${name}`);
      const { undecided } = await model.change();
      await model.create({
        drop: drop.filter((name) => undecided.some((each) => new RegExp(` ${name}\\b`).test(each))),
      });
      await writing(what, migrate, column);
      assert.deepEqual(await model.drift(), [], what);
    }
  });

  test('a change of types that is interrupted continues where it was; a value that no longer fits stops it', async () => {
    const typed = (code: string) =>
      things(`  score: { type: int64 }\n  code: { type: ${code} }\n`, 'filters: [name, score, code]\n');
    await model.sql('delete from things where id > 20000');
    model.write(typed('string'));
    await model.create();
    await migrate();
    await model.sql('update things set code = id % 1000, score = id % 1000');
    model.write(typed('integer'));
    await model.create();
    const own = await openDatabase({ ...model.config, statementTimeoutMs: 0, lockTimeoutMs: 0 }, []);
    const interrupted = applyPending(own, model.config);
    const left = async () =>
      String(await model.sql('select remaining from crm_migrations where remaining is not null'));
    await until(async () => (await left()).includes('"after"'), 'fill');
    const filling = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle' and query like 'with _b as%'`;
    await Promise.all([
      assert.rejects(interrupted),
      until(async () => (await model.sql(filling)).length > 0, 'end the connection'),
    ]);
    await own.close();
    assert.match(await left(), /^\[\{"fill":"things","after":\["1","\d+"\]\}/);
    await model.sql(`update things set code = 'no number' where name = 'n2'`);
    await assert.rejects(
      migrate(),
      /things\.code does not fit its new type in 1 record, for example \d+ of organization 1\. Everything else has been applied/,
    );
    const { pending, unfinished, drift } = await stateOf(model.database, model.config);
    assert.deepEqual([pending, drift], [[], []]);
    assert.match(String(unfinished), /_m\d+ is not finished: 1 step remains on things\. .* "crm migrate"/);
    await model.sql(`update things set code = '5' where name = 'n2'`);
    // A node and a view that did not exist when the migration started.
    await model.sql(
      `insert into crm_nodes (name, migrations, views, sees_views, seen_at) values ('late', '[]', 'crm_views_late', false, now() + interval '1 hour')`,
    );
    await assert.rejects(migrate(), /converts a table or column, and node late .* Everything else has been/);
    await model.sql('delete from crm_nodes');
    await model.sql('create view elsewhere.late as select code from things');
    await assert.rejects(migrate(), {
      name: 'UserError',
      message:
        'the type of things.code cannot change, because the migration would drop objects that no migration created: view elsewhere.late. Everything else has been applied; the next run continues from here. Drop it, migrate, then create it again.',
    });
    await model.sql('drop view elsewhere.late');
    assert.equal((await migrate()).length, 1);
    assert.deepEqual(await model.drift(), []);
    assert.deepEqual(await model.sql(`select code::text from things where name = 'n2'`), [['5']]);
    model.write(things('  score: { type: int64 }\n  code: { type: integer }\n'));
    await model.create();
    await migrate();
  });

  test('other types: what was created by hand is named, and neither dropped nor found late', async () => {
    model.write(things('  score: { type: int64 }\n  code: { type: string }\n', 'filters: [code]\n'));
    const plan = async () =>
      (await planChanges(model.config, modelOf(model.resources()), [], {}, model.database)).dependents;
    assert.deepEqual(await plan(), []);
    const objects: readonly (readonly [object: string, create: string, drop: string])[] = [
      [
        'constraint small on table things',
        'alter table things add constraint small check (code < 1000000)',
        'alter table things drop constraint small',
      ],
      ['index by_hand', 'create index by_hand on things (lower(name), code)', 'drop index by_hand'],
      [
        'trigger by_hand on table things',
        'create trigger by_hand before update of code on things for each row execute function suppress_redundant_updates_trigger()',
        'drop trigger by_hand on things',
      ],
      [
        'view elsewhere.codes',
        'create view elsewhere.codes as select code from things',
        'drop view elsewhere.codes',
      ],
    ];
    for (const [, create] of objects) await model.sql(create);
    const names = objects.map(([object]) => object);
    const retyped = (more: string, name = 'code', score = 'int64') =>
      `${more}common: all\nfields:\n  name: { type: string }\n  score: { type: ${score} }\n  ${name}: { type: string${name === 'code' ? '' : ', renamed_from: code'} }\n`;
    for (const files of [
      { things: retyped('') },
      { things: retyped('', 'number') },
      { items: retyped('renamed_from: things\n') },
    ]) {
      model.write(files);
      assert.deepEqual(
        await plan(),
        names.map((object) => `things.code: ${object}`),
      );
    }
    const isRejected = (columns: string) =>
      assert.rejects(migrate(), {
        name: 'UserError',
        message: `the type of ${columns} cannot change, because the migration would drop objects that no migration created: ${names.join(', ')}. Nothing was migrated. Drop them, migrate, then create them again.`,
      });
    // The objects use only the last one of the columns that change.
    model.write({ things: retyped('', 'code', 'string') });
    const retypedColumns = 'things.score, things.code';
    assert.deepEqual(
      await plan(),
      names.map((object) => `${retypedColumns}: ${object}`),
    );
    await model.create();
    await isRejected(retypedColumns);
    await model.discard();
    model.write(things('  score: { type: int64 }\n  code: { type: string }\n', 'filters: [code]\n'));
    await model.create();
    await isRejected('things.code');
    for (const [, , drop] of objects) await model.sql(drop);
    await migrate();
    assert.deepEqual(await model.drift(), []);
  });

  test('the plan announces the locks that the migration has', async () => {
    const fields = {
      name: 'type: string',
      score: 'type: int64',
      code: 'type: string',
      note: 'type: string, nullable: true',
    };
    const definition = (changes: Readonly<Record<string, string | null>>, more = '') => {
      const lines = Object.entries({ ...fields, ...changes }).flatMap(([name, text]) =>
        text === null ? [] : [`  ${name}: { ${text} }\n`],
      );
      return `common: all\n${more}fields:\n${lines.join('')}filters: [score]\n`;
    };
    model.write({ things: definition({}) });
    await model.create();
    await migrate();
    await model.sql('truncate things');
    await model.sql(
      `insert into things (organization_id, name, score, code, note, created_at, updated_at) values (1, 'a', 1, '1', '', now(), now())`,
    );
    const [[table] = []] = await model.sql(`select 'things'::regclass::oid::text`);
    const modes = [
      'none',
      'AccessShareLock',
      'RowShareLock',
      'RowExclusiveLock',
      'ShareUpdateExclusiveLock',
      'ShareLock',
      'ShareRowExclusiveLock',
      'ExclusiveLock',
      'AccessExclusiveLock',
    ];
    const rename = { name: null, title: 'type: string, renamed_from: name' };
    const shorter = { ...rename, title: 'type: string, renamed_from: name, max_length: 9' };
    const unique = { ...rename, title: 'type: string, renamed_from: name, unique: true' };
    const link = { account_id: 'type: reference, to: accounts, nullable: true' };
    const using = new Map([['things.title', "'x'"]]);
    const alone: readonly (readonly [what: string, changes: Readonly<Record<string, string | null>>])[] = [
      ['a field', { fax: 'type: string' }],
      ['a reference', link],
      ['a rename', rename],
      ['a drop', { code: null }],
      ['a type', { code: 'type: integer' }],
      ['not nullable', { note: 'type: string' }],
      ['required', { note: 'type: string, required: true' }],
      ['a shorter text', { name: 'type: string, max_length: 9' }],
      ['a unique field', { name: 'type: string, unique: true' }],
      ['a rename and a shorter text', shorter],
      ['a rename and a unique field', unique],
      ['a rename and a required field', { ...rename, note: 'type: string, required: true' }],
      ['a rename and a type', { code: null, number: 'type: integer, renamed_from: code' }],
      ['a rename, a field, a type and a check', { ...shorter, fax: 'type: string', code: 'type: integer' }],
    ];
    const cases: readonly (readonly [
      what: string,
      files: Readonly<Record<string, string>>,
      intent?: Parameters<typeof model.create>[0],
    ])[] = [
      ...alone.map(
        ([what, changes]) =>
          [
            what,
            { things: definition(changes) },
            what === 'a drop' ? { drop: ['things.code'] } : {},
          ] as const,
      ),
      ['a rename and values that are replaced', { things: definition(shorter) }, { using }],
      [
        'a renamed resource and a shorter text',
        { items: definition({ name: 'type: string, max_length: 9' }, 'renamed_from: things\n') },
      ],
    ];
    for (const [what, files, intent = {}] of cases) {
      model.write(files);
      const planned = await planChanges(model.config, modelOf(model.resources()), [], intent, model.database);
      const statements = await model.create(intent);
      assert.deepEqual(
        planned.statements.map(({ sql }) => sql),
        statements,
      );
      await connected(url(), async (client) => {
        await client.query('begin');
        const held = async () => {
          const { rows: locks } = await client.query<{ mode: string }>(
            `select mode from pg_locks where pid = pg_backend_pid() and relation = ${table}`,
          );
          return Math.max(0, ...locks.map(({ mode }) => modes.indexOf(mode)));
        };
        const real = new Map<string, number>();
        const execute = async (sql: string) => {
          const { rows: found } = await client.query(sql);
          real.set(sql, await held());
          return found;
        };
        await runChanges(model.database, model.config, execute, 'm', { changes: model.changes() });
        const announced = (lock: string) =>
          modes.indexOf(
            `${lock.toLowerCase().replace(/(^| )(.)/g, (_, __, first) => first.toUpperCase())}Lock`,
          );
        const ofTable = planned.statements.filter(({ table: name }) => name === 'things' || name === 'items');
        // Each statement that holds its lock while it reads or writes rows must acquire exactly the announced
        // lock.
        for (const { sql, lock, touches, title } of ofTable) {
          const mode = real.get(sql);
          if (touches === 'nothing' || mode === undefined) continue;
          assert.equal(modes[mode], modes[announced(lock)], `${what}: ${title}`);
        }
        const strongest = Math.max(...ofTable.map(({ lock }) => announced(lock)));
        // Indexes are built concurrently, after the transaction.
        if (strongest !== announced('SHARE UPDATE EXCLUSIVE'))
          assert.equal(modes[await held()], modes[strongest], what);
        const checks = ofTable.filter(({ sql }) => sql.startsWith('do '));
        const isReplaced = intent.using !== undefined;
        for (const { lock } of checks)
          assert.equal(lock, isReplaced ? 'ACCESS EXCLUSIVE' : 'ACCESS SHARE', what);
        await client.query('rollback');
      });
      await model.discard();
    }
    await model.sql('truncate things');
    model.write(things('  score: { type: int64 }\n  code: { type: integer }\n'));
    await model.create({ drop: ['things.note'] });
    await migrate();
  });

  test('a node that knows only what was before: it sees that, until it is gone; without views nothing changes', async () => {
    const named = (name: string, score: string) => ({
      things: `common: all\nfields:\n  ${name}: { type: string${name === 'title' ? ', renamed_from: name' : ''} }\n  score: { type: ${score} }\n  code: { type: integer }\n`,
    });
    await model.sql('truncate things');
    // The node counts as running until the test stops it.
    await model.sql(
      `insert into crm_nodes (name, migrations, views, sees_views, seen_at) values ('old', '[]', 'crm_views_old', false, now() + interval '1 hour')`,
    );
    model.write(named('title', 'string'));
    await model.create();
    await assert.rejects(
      migrate(),
      /m\d+ renames or converts a table or column, and node old \(latest migration: none, .* share a pooler/,
    );
    await model.sql('update crm_nodes set sees_views = true');
    await migrate();
    await model.sql(
      `insert into crm_views_old.things (organization_id, name, score, created_at, updated_at) values (1, 'x', 7, now(), now())`,
    );
    assert.deepEqual(await model.sql('select title, score from things'), [['x', '7']]);
    await model.sql(`update things set score = '8'`);
    assert.deepEqual(await model.sql('select name, score::text from crm_views_old.things'), [['x', '8']]);
    assert.equal(await contract(model.config, model.database), false);
    const { waiting, pending } = await readMigrationLog(model.database, model.config);
    assert.deepEqual([waiting.length, pending], [1, []]);
    await model.sql(`update crm_nodes set seen_at = now() - interval '16 seconds'`);
    assert.equal(await contract(model.config, model.database), true);
    assert.equal(await contract(model.config, model.database), false);
    assert.deepEqual(await model.drift(), []);
    const left = `select nspname::text from pg_namespace where nspname like 'crm_views%' union select proname::text from pg_proc where proname like 'things\\_\\_types%'`;
    assert.deepEqual(await model.sql(left), []);
  });
});
