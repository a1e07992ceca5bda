// Changes to locks: the API changes, the triggers, and migrations that convert the values of locked records.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modelOf } from '../../app/instance.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { apiChanges, apiOf } from '../../engine/schema/api.ts';
import { applyPending } from '../../engine/schema/apply.ts';
import { citusModel } from '../../engine/schema/citus.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';

const base = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  state: { type: string }
`;

describe('API changes', () => {
  const things = (more: string) => checkSources([{ file: 'things.yaml', text: `${base}${more}\n` }]);
  for (const [before, after, ...expected] of [
    ['locked: state == "a"', 'locked: { when: state == "a", message: No. }'],
    ['', 'locked: state == "a"', 'stricter things can no longer be changed if state == "a" (breaks clients)'],
    ['locked: state == "a"', '', 'looser things can now be changed if state == "a"'],
    [
      'locked: state == "a"',
      'locked: state == "b"',
      'stricter things can no longer be changed if state == "b" instead of state == "a" (breaks clients)',
    ],
  ] as const)
    test(`${before} → ${after}`, () => {
      const definitions = things(after);
      const changes = apiChanges(apiOf(things(before)), apiOf(definitions), definitions);
      assert.deepEqual(
        changes.map(
          ({ kind, name, text, breaks }) => `${kind} ${name} ${text}${breaks ? ' (breaks clients)' : ''}`,
        ),
        expected,
      );
    });
});

for (const driver of drivers)
  describe(`migrations (${driver})`, { concurrency: 1 }, () => {
    let model: Model;
    const state = 'state: { type: string, default: open }';
    /** Returns the definitions of bills, which can have another name, and of their items. */
    const bills = (lock: string, fields: string, more = '', name = 'bills', status = state) => ({
      [name]: `${name === 'bills' ? '' : 'renamed_from: bills\n'}singular: bill\ncommon: all\nfields:\n  ${status}\n${fields}${lock}\nchildren: { items: { of: items, by: bill_id, writable: true } }\n`,
      items: `common: all\nfields:\n  bill_id: { type: reference, to: ${name}, nullable: true }\n${more}`,
    });
    // A condition can contain dollar signs.
    const lock = 'locked: state == "paid" && state != "$$"';
    const change = async (files: Readonly<Record<string, string>>) => {
      model.write(files);
      const statements = await model.create();
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      return statements.join('\n');
    };
    const functions = async () =>
      (
        await model.sql(`select proname::text from pg_proc where proname ilike '%lock%\\_fn' order by 1`)
      ).flat();
    const rejected = (statement: string) =>
      assert.rejects(model.sql(statement), { message: 'This bill is locked and cannot be changed' });

    before(async () => {
      model = await modelWith(driver);
      await change(
        bills('', '  amount: { type: integer }\n  note: { type: string }\n', '  code: { type: string }\n'),
      );
      await model.sql(
        `insert into bills (organization_id, state, amount, note, created_at, updated_at) values (1, 'paid', 5, 'a', now(), now())`,
      );
      await model.sql(
        `insert into items (organization_id, bill_id, code, created_at, updated_at) select 1, id, 'x', now(), now() from bills`,
      );
    });
    after(() => model.close());

    test('a new lock creates triggers for records and their writable children', async () => {
      const statements = await change(
        bills(lock, '  amount: { type: integer }\n  note: { type: string }\n', '  code: { type: string }\n'),
      );
      for (const trigger of [
        /create trigger "recordLock" before update or delete on "bills"/,
        /create trigger "parentLockUpdate" after update on "items"/,
      ])
        assert.match(statements, trigger);
      assert.deepEqual(await functions(), [
        'bills_recordLock_fn',
        'items_parentLockDelete_fn',
        'items_parentLockInsert_fn',
        'items_parentLockUpdate_fn',
      ]);
      await rejected(`update bills set note = 'b'`);
      await rejected(`update items set code = 'b'`);
      await assert.rejects(
        citusModel(model.config, modelOf(model.resources())),
        /items has parents with locks, whose triggers read other tables/,
      );
    });

    test('migrations convert, rename and fill the values of locked records and their children', async () => {
      const fields =
        '  amount: { type: number }\n  remark: { type: string, renamed_from: note }\n  kind: { type: string, default: plain }\n';
      await change(bills(lock, fields, '  label: { type: string, renamed_from: code }\n'));
      assert.deepEqual(await model.sql('select amount::text, remark, kind from bills'), [
        ['5', 'a', 'plain'],
      ]);
      await rejected(`update bills set remark = 'b'`);
      await rejected(`update items set label = 'b'`);
    });

    test('the lock of a renamed resource with a renamed field still applies', async () => {
      const phase = 'phase: { type: string, default: open, renamed_from: state }';
      const fields = '  amount: { type: number }\n  remark: { type: string }\n  kind: { type: string }\n';
      const renamed = bills(
        'locked: phase == "paid"',
        fields,
        '  label: { type: string }\n',
        'receipts',
        phase,
      );
      await change(renamed);
      assert.deepEqual(await functions(), [
        'items_parentLockDelete_fn',
        'items_parentLockInsert_fn',
        'items_parentLockUpdate_fn',
        'receipts_recordLock_fn',
      ]);
      await rejected(`update receipts set remark = 'b'`);
      await rejected(`update items set label = 'b'`);
    });

    test('a removed lock drops the triggers', async () => {
      await change(
        bills(
          '',
          '  amount: { type: number }\n  remark: { type: string }\n  kind: { type: string }\n',
          '  label: { type: string }\n',
          'receipts',
          'phase: { type: string, default: open }',
        ),
      );
      assert.deepEqual(await functions(), []);
      await model.sql(`update receipts set remark = 'b'`);
      await model.sql(`update items set label = 'b'`);
    });
  });
