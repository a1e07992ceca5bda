// Migrations that add a trash to a resource in use, and that remove one.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelOf } from '../../app/instance.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { planChanges } from '../../engine/schema/plan.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';

const memo = (more = '') =>
  `singular: memo\ncommon: all\n${more}fields:\n  code: { type: string, unique: true }\n`;
const withTrash = memo('trash: 30 days\n');

for (const driver of drivers) {
  describe(`migrations of the trash (${driver})`, { concurrency: 1 }, () => {
    let model: Model;
    before(async () => {
      model = await modelWith(driver);
    });
    after(() => model.close());

    /** Creates and applies a migration. @returns its statements */
    const migrate = async (memos: string) => {
      model.write({ memos });
      const statements = await model.create();
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      return statements;
    };
    const insert = (code: string) =>
      model.sql(
        `insert into memos (organization_id, created_at, updated_at, code) values (1, now(), now(), '${code}')`,
      );
    const codes = async () =>
      ((await model.records('memos')) as { code: string }[]).map(({ code }) => code).sort();
    const hasTrash = async () =>
      (
        await model.sql(
          `select from information_schema.columns where table_schema = current_schema() and table_name = 'memos' and column_name = '_trashed_at'`,
        )
      ).length === 1;

    test('adding a trash keeps the records, and frees the unique values of trashed records', async () => {
      await migrate(memo());
      await insert('a');
      const statements = await migrate(withTrash);
      assert.match(statements.join('\n'), /alter table "memos" add "_trashed_at" timestamptz null/);
      assert.deepEqual(await codes(), ['a']);
      await assert.rejects(insert('a'), /duplicate key/);
      await model.sql('update memos set "_trashed_at" = now()');
      await insert('a');
      await assert.rejects(insert('a'), /duplicate key/);
      assert.deepEqual(await model.create(), []);
    });

    test('changing the period does not change the table', async () => {
      model.write({ memos: memo('trash: 1 day\n') });
      assert.deepEqual(await model.create(), []);
    });

    test('removing a trash fails until it is empty, and keeps the other records', async () => {
      model.write({ memos: memo() });
      const { checks, undecided } = await model.change();
      assert.deepEqual(
        [checks.map(({ name, says, refuses }) => [name, says, refuses]), undecided],
        [[['memos.trash', 'is still in use', true]], []],
      );
      await assert.rejects(migrate(memo()), /memos\.trash is still in use in 1 record/);
      assert.ok(await hasTrash());
      await model.sql('delete from memos where "_trashed_at" is not null');
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      assert.deepEqual([await hasTrash(), await codes()], [false, ['a']]);
      await assert.rejects(insert('a'), /duplicate key/);
    });

    test('a resource can get another name when its trash is removed', async () => {
      await migrate(withTrash);
      await model.sql('update memos set "_trashed_at" = now()');
      model.write({ slips: `renamed_from: memos\n${memo()}` });
      const plan = () => planChanges(model.config, modelOf(model.resources()), [], {}, model.database);
      assert.deepEqual(
        (await plan()).checks.map(({ name, count }) => [name, count]),
        [['slips.trash', 1]],
      );
      await model.create();
      await assert.rejects(
        applyPending(model.database, model.config),
        /slips\.trash is still in use in 1 record/,
      );
      await model.sql('update memos set "_trashed_at" = null');
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      assert.deepEqual(await model.sql('select code from slips'), [['a']]);
    });
  });
}
