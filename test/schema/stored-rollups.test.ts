// Changes to stored rollups: their columns, triggers and values, also while other clients write.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelOf } from '../../app/instance.ts';
import { UserError } from '../../engine/errors.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { citusModel } from '../../engine/schema/citus.ts';
import { planChanges } from '../../engine/schema/plan.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { whileUncommitted } from '../support/uncommitted.ts';

/** Returns the definitions of boxes with these fields, and of their parts. */
const boxes = (fields: string, parts = '  amount: { type: number }\n', more = '') => ({
  boxes: `${more}common: all\nfields:\n  name: { type: string }\n${fields}`,
  parts: `common: all\nfields:\n  box_id: { type: reference, to: boxes, nullable: true }\n  kind: { type: string }\n${parts}filters: [box_id]\n`,
});
const rollup = (values: string, more = '') =>
  `  total: { type: number, rollup: { ${values}, of: parts, by: box_id }${more} }\n`;
const stored = (values: string, more = '') => rollup(`${values}, stored: true`, more);

for (const driver of drivers)
  describe(`Changes to stored rollups (${driver})`, { concurrency: 1 }, () => {
    let model: Model;
    const migrate = async () => {
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
    };
    /** Creates and applies a migration. @returns its statements */
    const change = async (files: Readonly<Record<string, string>>, drop: readonly string[] = []) => {
      model.write(files);
      const statements = await model.create({ drop });
      await migrate();
      return statements;
    };
    const totals = async (table = 'boxes', column = 'total') =>
      (await model.sql(`select "${column}"::text from "${table}" order by id`)).flat();
    const functions = async () =>
      (
        await model.sql(`select proname::text from pg_proc where proname like '%\\_rollups%' order by 1`)
      ).flat();
    const insertPart = (box: number, amount: number, column = 'amount', table = 'parts') =>
      model.sql(
        `insert into "${table}" (organization_id, box_id, kind, "${column}", created_at, updated_at) values (1, ${box}, 'a', ${amount}, now(), now())`,
      );

    before(async () => {
      model = await modelWith(driver);
      await change(boxes(rollup('sum: amount')));
      await model.sql(
        `insert into boxes (organization_id, name, created_at, updated_at) select 1, 'b', now(), now() from generate_series(1, 120)`,
      );
      await model.sql(
        `insert into parts (organization_id, box_id, kind, amount, created_at, updated_at) select 1, b.id, 'a', b.id * 2, now(), now() from boxes b where b.id <= 110`,
      );
    });
    after(() => model.close());

    const sums = (count: number, factor = 2) =>
      Array.from({ length: 120 }, (_, index) => String(index < count ? (index + 1) * factor : 0));

    test('a rollup becomes stored: the plan shows the column, the triggers and the recalculation', async () => {
      // IDs are unique only within an organization.
      const [[other] = []] = await model.sql(
        `insert into crm_organizations (slug, name) values ('beta', 'Beta') returning id::text`,
      );
      for (const [id, amount] of [
        [1, 5],
        [2, 7],
      ])
        await model.sql(
          `with b as (insert into boxes (organization_id, id, name, created_at, updated_at) values (${other}, ${id}, 'b', now(), now()))
           insert into parts (organization_id, box_id, kind, amount, created_at, updated_at) values (${other}, ${id}, 'a', ${amount}, now(), now())`,
        );
      model.write(boxes(`${stored('sum: amount')}filters: [total]\n`));
      const plan = await planChanges(model.config, modelOf(model.resources()), [], {}, model.database);
      assert.deepEqual(plan.undecided, []);
      await assert.rejects(
        citusModel(model.config, modelOf(model.resources())),
        /parts is combined by stored rollups, whose triggers write other tables/,
      );
      const titles = plan.statements.map(({ title }) => title);
      for (const title of [
        /^alter table "boxes" add "total" numeric not null default 0;$/,
        /^create trigger "rollupsUpdate" after update on "parts" referencing old table as _old new table as _new for each statement/,
        /^recalculate boxes\.total$/,
        /^create index "boxes_total_index"/,
      ])
        assert.ok(
          titles.some((each) => title.test(each)),
          `${title}: ${titles.join('\n')}`,
        );
      const recalculation = plan.statements.find(({ title }) => title.startsWith('recalculate'));
      assert.match(
        recalculation?.says ?? '',
        driver === 'embedded'
          ? /updates the records whose values differ/
          : /recalculates the values in batches/,
      );
      await model.create();
      await migrate();
      assert.deepEqual(
        await model.sql(`select total::text from boxes where organization_id = ${other} order by id`),
        [['5'], ['7']],
      );
      for (const table of ['parts', 'boxes'])
        await model.sql(`delete from ${table} where organization_id = ${other}`);
      assert.deepEqual(await totals(), sums(110));
      await insertPart(120, 7);
      assert.equal((await totals()).at(-1), '7');
      await model.sql('delete from parts where box_id = 120');
      assert.deepEqual(await totals(), sums(110));
      // The migration and the writes of parts do not change the boxes.
      assert.deepEqual(await model.sql('select distinct _version::text from boxes'), [['1']]);
      assert.deepEqual((await model.change()).changes, []);
    });

    test('another condition or function recalculates the values', async () => {
      const statements = await change(boxes(stored('sum: amount, where: amount > 100')));
      assert.match(
        statements.join('\n'),
        /drop trigger if exists "rollupsInsert".*create trigger "rollupsInsert"/s,
      );
      assert.deepEqual(
        await totals(),
        sums(110).map((sum) => (Number(sum) > 100 ? sum : '0')),
      );
      await change(boxes(stored('max: amount')));
      assert.deepEqual(
        await totals(),
        sums(110).map((sum) => (sum === '0' ? null : sum)),
      );
    });

    // The other changes differ only in their steps, which are the same on both databases.
    if (driver === 'embedded') return;

    test('a computed field that is combined changes, and the resource gets a trash', async () => {
      const computed = (factor: number) =>
        `  amount: { type: number }\n  double: { type: number, computed: amount * ${factor} }\n`;
      await change(boxes(stored('sum: double'), computed(2)));
      assert.deepEqual(await totals(), sums(110, 4));
      await change(boxes(stored('sum: double'), computed(3)));
      assert.deepEqual(await totals(), sums(110, 6));
      await model.sql('update parts set amount = amount + 1 where box_id = 1');
      assert.equal((await totals())[0], '9');
      await model.sql('update parts set amount = amount - 1 where box_id = 1');
      await change(boxes(stored('sum: amount'), `  amount: { type: number }\ntrash: 30 days\n`));
      await model.sql('update parts set _trashed_at = now() where box_id = 1');
      assert.deepEqual(await totals(), ['0', ...sums(110).slice(1)]);
      await model.sql('update parts set _trashed_at = null');
      await change(boxes(stored('sum: amount')));
      assert.deepEqual(await totals(), sums(110));
    });

    test('a combined field gets another type', async () => {
      await model.sql('update parts set amount = 0.5 where box_id = 1');
      model.write(boxes(stored('sum: amount'), '  amount: { type: integer }\n'));
      await model.create({ using: new Map([['parts.amount', "'40'"]]) });
      await migrate();
      assert.deepEqual(await totals(), ['40', ...sums(110).slice(1)]);
      await change(boxes(stored('sum: amount')));
      await model.sql('update parts set amount = 2 where box_id = 1');
      assert.deepEqual(await totals(), sums(110));
    });

    test("a field of a rollup's condition gets another type", async () => {
      const heavy = stored('sum: amount, where: weight > 5');
      const weight = (type: string) => `  amount: { type: number }\n  weight: { type: ${type} }\n`;
      await change(boxes(heavy, weight('number')));
      assert.deepEqual(await totals(), sums(0));
      await model.sql('update parts set weight = case when box_id = 1 then 5.5 else 10 end');
      assert.deepEqual(await totals(), sums(110));
      model.write(boxes(heavy, weight('integer')));
      await model.create({ using: new Map([['parts.weight', "'5'"]]) });
      await migrate();
      assert.deepEqual(await totals(), ['0', ...sums(110).slice(1)]);
      await change(boxes(stored('sum: amount')), ['parts.weight']);
      assert.deepEqual(await totals(), sums(110));
    });

    test('names change', async () => {
      const price = '  price: { type: number, renamed_from: amount }\n';
      await change(boxes(stored('sum: price'), price));
      await insertPart(120, 7, 'price');
      assert.deepEqual(await totals(), [...sums(110).slice(0, -1), '7']);
      await model.sql('delete from parts where box_id = 120');
      const sum =
        '  sum: { type: number, renamed_from: total, rollup: { sum: price, of: parts, by: box_id, stored: true } }\n';
      await change(boxes(sum, price));
      await insertPart(120, 8, 'price');
      assert.equal((await totals('boxes', 'sum')).at(-1), '8');
      const { boxes: ofBoxes, parts: ofParts } = boxes(sum, price);
      const renamed = (text: string) => text.replaceAll('boxes', 'crates').replaceAll('parts', 'pieces');
      await change({
        crates: `renamed_from: boxes\n${renamed(ofBoxes)}`,
        pieces: `renamed_from: parts\n${renamed(ofParts)}`,
      });
      await insertPart(119, 9, 'price', 'pieces');
      assert.deepEqual(await totals('crates', 'sum'), [...sums(110).slice(0, -2), '9', '8']);
      await model.sql('delete from pieces where box_id > 110');
      assert.deepEqual(await functions(), [
        'pieces_rollupsDelete_fn',
        'pieces_rollupsInsert_fn',
        'pieces_rollupsUpdate_fn',
      ]);
      await change({
        boxes: `renamed_from: crates\n${boxes('  total: { type: number, renamed_from: sum, rollup: { sum: amount, of: parts, by: box_id, stored: true } }\n').boxes}`,
        parts: `renamed_from: pieces\n${boxes('', '  amount: { type: number, renamed_from: price }\n').parts}`,
      });
      assert.deepEqual(await totals(), sums(110));
    });

    test('the type cannot change', async () => {
      model.write(
        boxes('  total: { type: integer, rollup: { count: true, of: parts, by: box_id, stored: true } }\n'),
      );
      await assert.rejects(
        model.change(),
        (error) =>
          error instanceof UserError &&
          /"total" cannot be converted from number to integer\. Declare a new field\./.test(error.message),
      );
    });

    test('a missing trigger is drift', async () => {
      await model.sql('drop trigger "rollupsDelete" on parts');
      assert.deepEqual(await model.drift(), ['the trigger rollupsDelete of parts is missing or disabled']);
      await model.sql(
        'create trigger "rollupsDelete" after delete on parts referencing old table as _old for each statement execute function "parts_rollupsDelete_fn"()',
      );
    });

    test('without `stored`, the column and the triggers are dropped, without a confirmation', async () => {
      const statements = await change(boxes(rollup('sum: amount')));
      assert.match(statements.join('\n'), /drop column "total"/);
      assert.deepEqual(await functions(), []);
      await change(boxes(stored('sum: amount')));
      assert.deepEqual(await totals(), sums(110));
      await change(boxes(''));
      assert.deepEqual(await functions(), []);
    });

    test('values that clients have stored are replaced only if this is confirmed', async () => {
      await change(boxes('  total: { type: number }\n'));
      await model.sql('update boxes set total = 5');
      model.write(boxes(stored('sum: amount')));
      await assert.rejects(
        model.create(),
        (error) =>
          error instanceof UserError &&
          /"total" is now a stored rollup, so the values of boxes\.total would be replaced/.test(
            error.message,
          ),
      );
      await change(boxes(stored('sum: amount')), ['boxes.total']);
      assert.deepEqual(await totals(), sums(110));
      // A rollup that becomes an ordinary field keeps its values.
      await change(boxes('  total: { type: number }\n'));
      await insertPart(1, 100);
      assert.deepEqual(await totals(), sums(110));
      await model.sql('delete from parts where amount = 100 and box_id = 1');
    });

    test('values are exact after a migration during which other clients write', async () => {
      await change(boxes(''), ['boxes.total']);
      model.write(
        boxes(
          `${stored('sum: amount')}  count: { type: integer, rollup: { count: true, of: parts, by: box_id, stored: true } }\n`,
        ),
      );
      await model.create();
      let isDone = false;
      let writes = 0;
      const writer = (seed: number) =>
        connected(String(model.environment.DATABASE_URL), async (client) => {
          while (!isDone) {
            writes++;
            const box = 1 + ((writes * 7 + seed) % 120);
            await client.query(
              `insert into parts (organization_id, box_id, kind, amount, created_at, updated_at) values (1, ${box}, 'w', ${seed}, now(), now())`,
            );
            await client.query(
              `update parts set box_id = ${121 - box}, amount = amount + 1 where id = (select min(id) from parts where box_id = ${box})`,
            );
            await client.query(
              `delete from parts where id = (select max(id) from parts where box_id = ${box} and kind = 'w')`,
            );
            await client.query(`update boxes set name = 'w' where id = ${box}`);
          }
        });
      const writers = [writer(1), writer(2)];
      // A writer that connects after the migration would write nothing.
      await until(() => writes > 0, 'begin to write');
      await migrate().finally(() => {
        isDone = true;
      });
      await Promise.all(writers);
      const wrong = await model.sql(
        `select b.id::text from boxes b cross join lateral (
          select coalesce(sum(amount), 0) as total, count(*) as count from parts where box_id = b.id) p
        where (b.total, b.count) is distinct from (p.total, p.count)`,
      );
      assert.deepEqual(wrong, []);
    });

    test('a batch waits for a transaction that adds a record, and counts the record', async () => {
      await change(boxes(''));
      await insertPart(1, 5);
      model.write(boxes(stored('sum: amount')));
      await model.create();
      // The migration is interrupted before the first batch.
      await model.sql(
        `create function fails() returns trigger language plpgsql as $$ begin raise 'interrupted'; end $$`,
      );
      await model.sql(
        `create trigger fails before update on crm_migrations for each row when (old.remaining like '[{"fill"%') execute function fails()`,
      );
      await assert.rejects(applyPending(model.database, model.config), /interrupted/);
      await model.sql('drop function fails() cascade');
      const part = `insert into parts (organization_id, box_id, kind, amount, created_at, updated_at) values (1, 1, 'a', 1000, now(), now())`;
      await whileUncommitted(model, [part], migrate);
      const [[sum] = []] = await model.sql('select sum(amount)::text from parts where box_id = 1');
      assert.ok(Number(sum) >= 1005);
      assert.equal((await totals())[0], sum);
    });
  });
