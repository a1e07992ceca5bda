// Changes to field types: convertible values are kept, and if there are other values, the migration fails and
// reports them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelOf } from '../../app/instance.ts';
import { UserError } from '../../engine/errors.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import type { Intent } from '../../engine/schema/model-change.ts';
import { planChanges } from '../../engine/schema/plan.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';

const things = (field: string, more = '') =>
  `singular: thing\ncommon: all\nfields:\n  value: ${field}\n${more}filters: [value]\n`;

/** The values before the migration, as SQL, and the values of the migrated records. */
interface Case {
  readonly from: string;
  readonly to: string;
  readonly values: readonly (readonly [before: string, after: unknown])[];
  /** Values that cannot be converted, as SQL. */
  readonly lost?: readonly string[];
  readonly says?: RegExp;
}

const text = (value: string): string => `'${value}'`;
const string = '{ type: string }';
const orNull = (type: string) => `{ type: ${type}, nullable: true }`;
/** Returns the value of a new record, as text. */
const initial = (field: string): string => {
  if (field.includes('nullable')) return 'null';
  const [, value] = /default: (\w+)/.exec(field) ?? [];
  const [, type = ''] = /type: (\w+)/.exec(field) ?? [];
  return value ?? ({ string: '', list: '', boolean: 'false' } as Record<string, string>)[type] ?? '0';
};
const cases: readonly Case[] = [
  {
    from: string,
    to: '{ type: integer }',
    values: [
      [text('42'), 42],
      [text('-7'), -7],
      [text(''), 0],
    ],
    lost: [text('4.5'), text('2147483648'), text('x')],
    says: /is not a 32-bit integer/,
  },
  { from: string, to: '{ type: integer, required: true }', values: [[text('42'), 42]], lost: [text('')] },
  {
    from: string,
    to: orNull('integer'),
    values: [
      [text('42'), 42],
      [text(''), null],
    ],
    lost: [text('n/a')],
  },
  {
    from: string,
    to: '{ type: int64, default: 5 }',
    values: [
      [text('9007199254740993'), '9007199254740993'],
      [text(''), 5],
    ],
    lost: [text('9223372036854775808')],
  },
  {
    from: string,
    to: '{ type: number }',
    values: [
      [text('12.50'), 12.5],
      [text('-0.1'), -0.1],
    ],
    lost: [text('1,5'), text('1e5')],
  },
  {
    from: string,
    to: '{ type: list, max_items: 2 }',
    values: [
      [text('a;b'), ['a;b']],
      [text(''), []],
    ],
    lost: ["repeat('x', 501)"],
    says: /is not a list of strings/,
  },
  {
    from: string,
    to: '{ type: boolean }',
    values: [
      [text('TRUE'), true],
      [text('1'), true],
      [text('False'), false],
      [text('0'), false],
      [text(''), false],
    ],
    lost: [text('yes')],
    says: /is not true or false/,
  },
  {
    from: string,
    to: orNull('date'),
    values: [
      [text('2024-02-29'), '2024-02-29'],
      [text('2024-03-01T00:00:00Z'), '2024-03-01'],
      [text(''), null],
    ],
    lost: [text('2023-02-29'), text('2024-13-01'), text('2024-03-01T10:00:00Z'), text('0000-01-01')],
  },
  {
    from: string,
    to: orNull('timestamp'),
    values: [
      [text('2026-03-01T09:30:00.25+05:30'), '2026-03-01T09:30:00.25+05:30'],
      [text('1999-12-31T23:59:59.999999-08:00'), '1999-12-31T23:59:59.999999-08:00'],
      [text('2026-03-01t09:30:00z'), '2026-03-01T09:30:00Z'],
      [text('2026-03-01'), '2026-03-01T00:00:00Z'],
      [text(''), null],
    ],
    lost: [text('2026-02-30T00:00:00Z'), text('soon'), text('2026-03-01T24:00:00Z')],
  },
  { from: '{ type: integer }', to: '{ type: int64 }', values: [['2147483647', 2147483647]] },
  { from: '{ type: integer }', to: string, values: [['42', '42']] },
  { from: '{ type: int64 }', to: '{ type: integer }', values: [['42', 42]], lost: ['2147483648'] },
  {
    from: '{ type: number }',
    to: '{ type: int64 }',
    values: [
      ['42', 42],
      ['7.0', 7],
    ],
    lost: ['7.5'],
  },
  { from: '{ type: number }', to: string, values: [['12.50', '12.50']] },
  { from: '{ type: boolean }', to: string, values: [['true', 'true']] },
  { from: '{ type: boolean }', to: '{ type: integer }', values: [], lost: ['true'] },
  {
    from: orNull('date'),
    to: string,
    values: [
      [`date '2024-02-29'`, '2024-02-29'],
      ['null', ''],
    ],
  },
  {
    from: orNull('date'),
    to: orNull('timestamp'),
    values: [
      [`date '2024-02-29'`, '2024-02-29T00:00:00Z'],
      ['null', null],
    ],
  },
];

for (const driver of drivers) {
  describe(`type changes (${driver})`, { concurrency: 1 }, () => {
    let model: Model;
    before(async () => {
      model = await modelWith(driver);
    });
    after(() => model.close());

    const insert = (...values: readonly string[]) =>
      model.sql(
        `insert into things (organization_id, value, created_at, updated_at) select id, v, now(), now() from crm_organizations, (values ${values.map((value) => `(${value})`).join(', ')}) t(v)`,
      );
    const begin = async (field: string, more = '') => {
      model.write({ things: things(field, more) });
      await model.create();
      await applyPending(model.database, model.config);
    };
    const change = async (field: string, intent: Intent = {}, more = '') => {
      model.write({ things: things(field, more) });
      await model.create(intent);
      return applyPending(model.database, model.config);
    };
    /** Returns the changes of the last migration. */
    const simpleChanges = () =>
      model.changes().flatMap((change) => (change.kind === 'retypeColumns' ? change.changes : [change]));
    const shown = async () =>
      ((await model.records('things')) as { value: unknown }[]).map(({ value }) => value);
    /** Adds another organization while the work runs. */
    const withOther = async (work: (organization: string) => Promise<void>) => {
      const [[other] = []] = await model.sql(
        `insert into crm_organizations (slug, name) values ('beta', 'Beta') returning id::text`,
      );
      await work(String(other));
      await model.sql(`delete from crm_organizations where id = ${other}`);
    };
    const end = async () => {
      model.write({});
      await model.create({ drop: ['things'] });
      await applyPending(model.database, model.config);
    };

    for (const { from, to, values, lost = [], says = /things\.value is no/ } of cases) {
      test(`${from} → ${to}`, async () => {
        await begin(from);
        if (values.length > 0) await insert(...values.map(([value]) => value));
        if (lost.length > 0) {
          await insert(...lost);
          await assert.rejects(change(to), (error) => {
            assert.ok(error instanceof UserError, String(error));
            assert.match(error.message, says);
            assert.match(
              error.message,
              new RegExp(` in ${lost.length} records?, for example \\d+ of organization 1`),
            );
            return true;
          });
          for (const value of lost) await model.sql(`delete from things where value = ${value}`);
          await applyPending(model.database, model.config);
        } else await change(to);
        // If another type can represent every value, the migration does not read records to check this.
        if (lost.length === 0 && to !== orNull('timestamp'))
          assert.ok(!simpleChanges().some(({ kind }) => kind === 'check'));
        assert.deepEqual(
          (await shown()).map(String),
          values.map(([, after]) => String(after)),
        );
        assert.deepEqual(await model.drift(), []);
        const collation = `select c.collname::text from pg_attribute a join pg_collation c on c.oid = a.attcollation where a.attrelid = 'things'::regclass and a.attname = 'value'`;
        if (to === string) assert.deepEqual(await model.sql(collation), [['C']]);
        await model.sql(
          'insert into things (organization_id, created_at, updated_at) values (1, now(), now())',
        );
        assert.equal(String((await shown()).at(-1)), initial(to));
        await end();
      });
    }

    test('converts a timestamp to text and back', async () => {
      await begin(orNull('timestamp'));
      await model.sql(
        `insert into things (organization_id, value, value_offset, created_at, updated_at) values (1, '2026-03-01T10:00:00Z', '+02:00', now(), now())`,
      );
      // Set with SQL, without an offset.
      await model.sql(
        `insert into things (organization_id, value, created_at, updated_at) values (1, '2026-03-01T10:00:00.5Z', now(), now())`,
      );
      const values = ['2026-03-01T12:00:00+02:00', '2026-03-01T10:00:00.5Z'];
      assert.deepEqual(await shown(), values);
      await change(string);
      assert.deepEqual(await shown(), values);
      await change(orNull('timestamp'));
      assert.deepEqual(await shown(), values);
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test("converts to a reference only IDs of the organization's records", async () => {
      await begin(string);
      await model.sql(
        `insert into accounts (organization_id, id, name, created_at, updated_at) values (1, 7, 'x', now(), now())`,
      );
      await insert(text('7'), text(''), text('8'));
      const link = '{ type: reference, to: accounts, nullable: true }';
      await withOther(async (other) => {
        await model.sql(
          `insert into accounts (organization_id, id, name, created_at, updated_at) values (${other}, 8, 'x', now(), now())`,
        );
        await assert.rejects(
          change(link),
          /things\.value is not the ID of a record in 1 record, for example/,
        );
        await model.sql('delete from accounts where id = 8');
      });
      await model.discard();
      await change(link, { using: new Map([['things.value', 'null']]) });
      assert.deepEqual(await shown(), [7, null, null]);
      await change('{ type: int64 }');
      assert.deepEqual(await shown(), [7, 0, 0]);
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('converts fields while names change: a resource that a field will refer to, and a field that --using reads', async () => {
      const boards = (more = '') =>
        `singular: board\ncommon: all\n${more}fields:\n  name: { type: string }\n`;
      const label = (name: string, more = '') => `  ${name}: { type: string${more} }\n`;
      model.write({ things: things(string, label('label')), boards: boards() });
      await model.create();
      await applyPending(model.database, model.config);
      await model.sql(
        'insert into boards (organization_id, id, created_at, updated_at) values (1, 7, now(), now())',
      );
      await insert(text('7'), text('8'));
      await model.sql(`update things set label = value || ' pcs'`);
      model.write({
        things: things('{ type: reference, to: walls, nullable: true }', label('label')),
        walls: boards('renamed_from: boards\n'),
      });
      await model.create();
      await assert.rejects(
        applyPending(model.database, model.config),
        /things\.value is not the ID of a record in 1 record, for example/,
      );
      await model.sql("update things set value = '' where value = '8'");
      await applyPending(model.database, model.config);
      assert.deepEqual(await shown(), [7, null]);
      assert.deepEqual(await model.drift(), []);
      model.write({
        things: things(string, label('title', ', renamed_from: label')),
        walls: boards('renamed_from: boards\n'),
      });
      await model.create();
      await applyPending(model.database, model.config);
      await model.sql("update things set value = 'x'");
      model.write({
        things: things('{ type: integer }', label('caption', ', renamed_from: title')),
        walls: boards('renamed_from: boards\n'),
      });
      await model.create({ using: new Map([['things.value', "replace(caption, ' pcs', '')"]]) });
      await applyPending(model.database, model.config);
      assert.deepEqual(await shown(), [7, 8]);
      model.write({});
      await model.create({ drop: ['things', 'walls'] });
      await applyPending(model.database, model.config);
    });

    test('converts the values of each organization, also in several batches', async () => {
      await begin(string);
      await withOther(async (other) => {
        // A batch contains 500 records. IDs are unique only within an organization.
        for (const [organization, count] of [
          ['1', 501],
          [other, 3],
        ] as const)
          await model.sql(
            `insert into things (organization_id, id, value, created_at, updated_at) select ${organization}, n, n::text, now(), now() from generate_series(1, ${count}) n`,
          );
        await change('{ type: integer }');
        assert.deepEqual(
          await model.sql(
            `select (organization_id = ${other})::text, count(*)::text from things where value = id group by 1 order by 1`,
          ),
          [
            ['false', '501'],
            ['true', '3'],
          ],
        );
        assert.deepEqual(await model.drift(), []);
        await model.sql(`delete from things where organization_id = ${other}`);
      });
      await end();
    });

    test("converts to a user only IDs of the organization's members, also from numbers", async () => {
      const number = orNull('int64');
      await begin(number);
      await model.sql(
        `with u as (insert into crm_users (email, password_hash) values ('ann@a.example', ''), ('eve@a.example', '') returning id, email), p as (insert into crm_profiles (organization_id, name) values (1, 'Some') returning id) insert into crm_memberships (organization_id, user_id, profile_id) select 1, u.id, p.id from u, p where u.email like 'ann%'`,
      );
      const idOf = (name: string) => `(select id from crm_users where email like '${name}%')`;
      const [[ann] = []] = await model.sql(`select ${idOf('ann')}`);
      await insert(idOf('ann'), 'null', idOf('eve'));
      const user = '{ type: user, nullable: true }';
      await withOther(async (other) => {
        await model.sql(
          `with p as (insert into crm_profiles (organization_id, name) values (${other}, 'Some') returning id) insert into crm_memberships (organization_id, user_id, profile_id) select ${other}, ${idOf('eve')}, id from p`,
        );
        await assert.rejects(
          change(user),
          /things\.value is not the ID of a member in 1 record, for example/,
        );
        for (const table of ['crm_memberships', 'crm_profiles'])
          await model.sql(`delete from ${table} where organization_id = ${other}`);
      });
      await model.discard();
      await change(user, { using: new Map([['things.value', 'null']]) });
      assert.deepEqual((await shown()).map(String), [String(ann), 'null', 'null']);
      await change(string);
      await change(user);
      await change(number);
      assert.deepEqual((await shown()).map(String), [String(ann), 'null', 'null']);
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('converts texts and numbers to amounts of money, and keeps their currencies', async () => {
      const amount = (currency: string, rest = '') =>
        `{ type: money, currency: ${currency}, nullable: true${rest} }`;
      await begin(string);
      await insert(text('12.50 EUR'), text(''), text('3'));
      await assert.rejects(
        change(amount('any')),
        /value is not an amount with a currency, such as 12\.50 EUR in 1 record/,
      );
      await model.discard();
      await model.sql("delete from things where value = '3'");
      await change(amount('any'));
      assert.deepEqual(await shown(), [{ amount: 12.5, currency: 'EUR' }, null]);
      await assert.rejects(change(orNull('number')), /from money \(currency: any\) to number/);
      await assert.rejects(change(amount('EUR')), /from money \(currency: any\) to money \(currency: EUR\)/);
      await change(string);
      assert.deepEqual(await shown(), ['12.50 EUR', '']);
      await change(amount('EUR'));
      await change(orNull('number'));
      assert.deepEqual(await shown(), [12.5, null]);
      await change(amount('USD'));
      assert.deepEqual(await shown(), [{ amount: 12.5, currency: 'USD' }, null]);
      await assert.rejects(change(amount('EUR')), /from money \(currency: USD\) to money \(currency: EUR\)/);
      await assert.rejects(change(amount('USD', ', min: 20')), /value is less than 20 in 1 record/);
      await model.discard();
      await change(amount('USD', ', min: 12.5'));
      await assert.rejects(model.sql('update things set value = 1 where value > 0'), /things_value_rules/);
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('converts values to lists of one value, and names lists that are too long', async () => {
      await begin('{ type: integer }');
      await insert('7');
      await change('{ type: list, of: integer }');
      assert.deepEqual(await shown(), [[7]]);
      await insert("'{1,2}'::int[]");
      await assert.rejects(
        change('{ type: list, of: integer, max_items: 1 }'),
        /value contains more than 1 value in 1 record/,
      );
      await model.discard();
      await assert.rejects(change(string), /cannot be converted from list to string/);
      await change('{ type: list, of: integer, max_items: 2 }');
      await assert.rejects(model.sql("update things set value = '{1,2,3}'"), /things_value_rules/);
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('names duplicates under a lookup, which compares unique values', async () => {
      const unique = (rest = '') => `{ type: string, unique: true${rest} }`;
      await begin(unique());
      await insert(text('Ada'), text('ada'));
      await withOther(async (other) => {
        await model.sql(
          `insert into things (organization_id, value, created_at, updated_at) values (${other}, 'ADA', now(), now())`,
        );
        await assert.rejects(
          change(unique(', lookup: caseless')),
          /value has a duplicate value in 2 records/,
        );
        await model.discard();
        await model.sql("delete from things where value = 'Ada'");
        await change(unique(', lookup: caseless'));
        await model.sql(`delete from things where organization_id = ${other}`);
      });
      await assert.rejects(insert(text('ADA')), /things_value_unique/);
      await change(unique(', lookup: caseless, max_length: 9'));
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('names the first ten records, and a plan shows their number and shortened values', async () => {
      await begin(string);
      const long = 'ä'.repeat(61);
      await insert(text(long), ...Array.from({ length: 11 }, (_, index) => text(`x${index}`)));
      // The first record is now stored after the others.
      await model.sql('update things set updated_at = now() where id = 1');
      const ids = Array.from({ length: 10 }, (_, index) => String(index + 1));
      await withOther(async (other) => {
        // The record of another organization is the last one, although its ID is not.
        await model.sql(
          `insert into things (organization_id, id, value, created_at, updated_at) values (${other}, 1, 'y', now(), now())`,
        );
        model.write({ things: things('{ type: integer }') });
        const plan = () => planChanges(model.config, modelOf(model.resources()), [], {}, model.database);
        const { checks, statements } = await plan();
        assert.deepEqual(
          checks.map(({ count, examples }) => [
            count,
            examples.map(({ organization, id }) => `${organization} ${id}`),
            examples[0]?.value,
          ]),
          [[13, ids.map((id) => `1 ${id}`), long.slice(1)]],
        );
        assert.ok(statements.some(({ rows }) => rows?.count === 13 && !rows.isEstimate));
        await assert.rejects(change('{ type: integer }'), (error: Error) =>
          error.message.startsWith(
            `things.value is not a 32-bit integer in 13 records, for example ${ids.map((id) => `${id} of organization 1`).join(', ')}. Nothing was migrated.`,
          ),
        );
        await model.discard();
        // The rows of large tables are not counted.
        await model.sql(`update pg_class set reltuples = 100001 where oid = 'things'::regclass`);
        const estimates = (await plan()).statements.flatMap(({ rows }) => rows ?? []);
        assert.ok(estimates.length > 0);
        for (const rows of estimates) assert.deepEqual(rows, { count: 100_001, isEstimate: true });
        await model.sql(`delete from things where organization_id = ${other}`);
      });
      await end();
    });

    test('another default applies to new records, and missing values get it', async () => {
      const add = () =>
        model.sql('insert into things (organization_id, created_at, updated_at) values (1, now(), now())');
      const values = async () => (await shown()).map(String);
      await begin('{ type: integer, default: 2 }');
      await add();
      await change('{ type: integer, default: 3 }');
      await add();
      await change(orNull('integer'));
      await add();
      assert.deepEqual(await values(), ['2', '3', 'null']);
      await change('{ type: integer, default: 4 }');
      await add();
      assert.deepEqual(await values(), ['2', '3', '4', '4']);
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('uses the result of --using for values that do not fit, if the result fits', async () => {
      await begin(string);
      await insert(text('12 pcs'), text('7'));
      const using = (sql: string): Intent => ({ using: new Map([['things.value', sql]]) });
      await assert.rejects(change('{ type: integer }', using("'none'")), /1 record,/);
      await model.discard();
      await change('{ type: integer }', using("substring(value from '[0-9]+')"));
      assert.deepEqual(await shown(), [12, 7]);
      await end();
    });

    test('names removed enum values and duplicates under new restrictions', async () => {
      const given = (sql: string): Intent => ({ using: new Map([['things.value', sql]]) });
      await begin('{ type: string, enum: [Hot, Warm, Cold] }');
      await insert(text('Hot'), text('Warm'), text('Warm'));
      const fewer = '{ type: string, enum: [Hot, Cold] }';
      await assert.rejects(
        change(fewer),
        /value has a value that is no longer listed in 2 records, for example/,
      );
      await model.discard();
      await change(fewer, given("'Cold'"));
      assert.deepEqual(await shown(), ['Hot', 'Cold', 'Cold']);
      const unique = '{ type: string, enum: [Hot, Cold], unique: true }';
      await assert.rejects(change(unique), /value has a duplicate value in 2 records, for example/);
      await model.discard();
      await change(unique, given("value || ' ' || id"));
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('names values that violate new rules, and enforces the rules afterwards', async () => {
      await begin('{ type: number }');
      await insert('5', '-1', '12.5');
      const ranged = '{ type: number, min: 0, max: 10 }';
      const { checks } = await (async () => {
        model.write({ things: things(ranged) });
        return model.change();
      })();
      assert.deepEqual(
        checks.map(({ name, says, refuses }) => [name, says, refuses]),
        [
          ['things.value', 'is less than 0', true],
          ['things.value', 'is greater than 10', true],
        ],
      );
      await assert.rejects(
        change(ranged),
        /value is less than 0 in 1 record, for example \d+ of organization/,
      );
      await model.discard();
      const using = new Map([['things.value', 'least(greatest(value, 0), 10)']]);
      const plan = await planChanges(model.config, modelOf(model.resources()), [], { using }, model.database);
      assert.deepEqual(
        plan.checks.map(({ says, refuses, replaces, count }) => [says, refuses, replaces, count]),
        [
          ['is less than 0', false, true, 1],
          ['is greater than 10', false, true, 1],
        ],
      );
      await change(ranged, { using });
      assert.deepEqual(await shown(), [5, 0, 10]);
      await assert.rejects(model.sql('update things set value = 11'), /things_value_rules/);
      // A wider range needs no check. A new type keeps the rule, whose constraint is created again.
      await change('{ type: number, min: 0, max: 100 }');
      assert.deepEqual(
        model.changes().map(({ kind }) => kind),
        ['dropConstraint', 'addConstraint'],
      );
      await assert.rejects(
        change('{ type: integer, min: 6, default: 6 }'),
        /value is not a 32-bit integer or violates a rule in 2 records/,
      );
      await model.discard();
      const converted = await planChanges(
        model.config,
        modelOf(model.resources()),
        [],
        { using: new Map([['things.value', "'7'"]]) },
        model.database,
      );
      const says = 'is not a 32-bit integer or violates a rule';
      assert.deepEqual(
        converted.checks.map((check) => [check.says, check.refuses, check.replaces, check.count]),
        [
          [says, true, undefined, 0],
          [says, false, true, 2],
        ],
      );
      await change('{ type: integer, min: 5, default: 5 }', {
        using: new Map([['things.value', "'7'"]]),
      });
      assert.deepEqual(await shown(), [5, 7, 10]);
      await assert.rejects(model.sql('update things set value = 4'), /things_value_rules/);
      // A new field's replacement is checked, too.
      const more = '  size: { type: integer, required: true, max: 3 }\n';
      const intent = (value: string) => ({ using: new Map([['things.size', value]]) });
      await assert.rejects(
        change('{ type: integer, min: 5, default: 5 }', intent("'4'"), more),
        /violates a rule/,
      );
      await model.discard();
      await change('{ type: integer, min: 5, default: 5 }', intent("'3'"), more);
      // The constraint of a renamed field is replaced, and a removed rule's constraint is dropped.
      await change(
        '{ type: integer, min: 5, default: 5 }',
        {},
        more.replace('size:', 'width:').replace('max: 3', 'max: 3, renamed_from: size'),
      );
      await assert.rejects(model.sql('update things set width = 4'), /things_width_rules/);
      await change('{ type: integer }', {}, '  width: { type: integer, required: true }\n');
      await model.sql('update things set value = 0, width = 4');
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('names records that violate a new check, format or list of values', async () => {
      await begin(string);
      await insert(text('Ada@Engines.example'), text('ada@engines.example'), text('ada'));
      const email = (rest = '') => `{ type: string, format: email${rest} }`;
      await assert.rejects(change(email()), /value is not an email address in 1 record/);
      await model.discard();
      await change(email(), { using: new Map([['things.value', "''"]]) });
      assert.deepEqual(await shown(), ['Ada@Engines.example', 'ada@engines.example', '']);
      await assert.rejects(model.sql("update things set value = 'x'"), /things_value_rules/);
      await assert.rejects(change(email(', unique: true')), /value has a duplicate value in 2 records/);
      await model.discard();
      await change('{ type: string, unique: true }');
      await assert.rejects(change(email(', unique: true')), /value has a duplicate value in 2 records/);
      await model.discard();
      await change('{ type: string, enum: [ada, none] }');
      const closed = '{ type: string, enum: [ada, none], closed: true }';
      await assert.rejects(change(closed), /value is not one of ada, none in 2 records/);
      await model.discard();
      await change(closed, { using: new Map([['things.value', "'ada'"]]) });
      assert.deepEqual(await shown(), ['ada', 'ada', '']);
      model.write({ things: things('{ type: string, enum: [none], closed: true }') });
      assert.deepEqual(
        (await model.change()).checks.map(({ says }) => says),
        ['is not one of none'],
      );
      const check = (rest: string) =>
        `  size: { type: integer, default: 2 }\nchecks: [{ that: 'value != "ada" || size ${rest}', fields: [size], message: Too small. }]\n`;
      await assert.rejects(change(closed, {}, check('> 2')), /things do not meet .* in 2 records/);
      await model.discard();
      await change(closed, {}, check('> 1'));
      await assert.rejects(model.sql('update things set size = 1'), /things_size_check/);
      await assert.rejects(change(closed, {}, check('> 2')), /things do not meet .* in 2 records/);
      await model.discard();
      await change(closed, {}, check('> 0'));
      await model.sql('update things set size = 1');
      assert.deepEqual(await model.drift(), []);
      await end();
    });

    test('names null, long and missing values under new restrictions', async () => {
      await begin(orNull('string'));
      await insert(text('long text'), 'null');
      await change(string);
      assert.deepEqual(await shown(), ['long text', '']);
      await assert.rejects(
        change('{ type: string, max_length: 4 }'),
        /value is longer than 4 characters in 1 record/,
      );
      await model.discard();
      await change('{ type: string, max_length: 4 }', {
        using: new Map([['things.value', 'left(value, 4)']]),
      });
      assert.deepEqual(await shown(), ['long', '']);
      const code = '  code: { type: date, required: true }\n';
      await assert.rejects(
        change('{ type: string, max_length: 4 }', {}, code),
        /things\.code is required but has no value in 2 records/,
      );
      await model.discard();
      await change(
        '{ type: string, max_length: 4 }',
        { using: new Map([['things.code', "'2026-01-01'"]]) },
        code,
      );
      assert.deepEqual(await model.sql('select code from things'), [['2026-01-01'], ['2026-01-01']]);
      await assert.rejects(insert(text('new')), /"code"/, 'only existing records get the value');
      const kind = `${code}  kind: { type: string }\n`;
      await change('{ type: string, max_length: 4 }', { using: new Map([['things.kind', "'old'"]]) }, kind);
      assert.deepEqual(await model.sql(`select kind from things limit 1`), [['old']]);
      assert.deepEqual(await model.drift(), []);
      await end();
    });
  });
}
