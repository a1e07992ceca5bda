// Migrations of references to one of several resources: each resource has a column, a foreign key and an index, and a
// constraint covers all columns.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { applyPending } from '../../engine/schema/apply.ts';
import type { Intent } from '../../engine/schema/model-change.ts';
import { drivers } from '../support/instance.ts';
import { type Model, modelWith } from '../support/models.ts';

const boards = (singular: string, more = '') =>
  `singular: ${singular}\ncommon: all\nfields:\n  name: { type: string }\n${more}`;
const memo = (field: string) => `singular: memo\ncommon: all\nfields:\n  ${field}\n`;

for (const driver of drivers) {
  describe(`references to one of several resources (${driver})`, { concurrency: 1 }, () => {
    let model: Model;
    before(async () => {
      model = await modelWith(driver);
      await model.sql(
        'insert into leads (organization_id, id, created_at, updated_at) values (1, 7, now(), now())',
      );
      await model.sql(
        'insert into contacts (organization_id, id, created_at, updated_at) values (1, 7, now(), now())',
      );
    });
    after(() => model.close());

    const write = (memos: string, files: Readonly<Record<string, string>> = {}) =>
      model.write({ memos: memo(memos), ...files });
    /** Creates and applies a migration. @returns its statements, without the index and trigger definitions */
    const migrate = async (field: string, files?: Readonly<Record<string, string>>, intent: Intent = {}) => {
      write(field, files);
      const statements = await model.create(intent);
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      return statements;
    };
    const insert = (columns: string, values: string) =>
      model.sql(
        `insert into memos (organization_id, created_at, updated_at${columns}) values (1, now(), now()${values})`,
      );
    const valuesOf = async (name: string) =>
      ((await model.records('memos')) as Record<string, unknown>[]).map((record) => record[name]);
    const onLead = { resource: 'leads', id: 7 };
    const onContact = { resource: 'contacts', id: 7 };

    test('a single reference becomes one of several, and its values are kept', async () => {
      await migrate('about: { type: reference, to: leads, nullable: true }');
      await insert(', about', ', 7');
      const statements = await migrate('about: { type: reference, to: [leads, contacts], nullable: true }');
      assert.ok(statements.includes('alter table "memos" rename column "about" to "about_lead_id";'));
      assert.ok(
        statements.includes(
          'alter table "memos" add constraint "memos_about_target" check (num_nonnulls("about_lead_id", "about_contact_id") <= 1);',
        ),
        statements.join('\n'),
      );
      await insert(', about_contact_id', ', 7');
      await assert.rejects(insert(', about_lead_id, about_contact_id', ', 7, 7'), /memos_about_target/);
      assert.deepEqual(await valuesOf('about'), [onLead, onContact]);
      assert.deepEqual(await model.create(), []);
    });

    test('a renamed field and renamed resources keep their values', async () => {
      const field = (name: string, to: string, more = '') =>
        `${name}: { type: reference, to: [leads, contacts, ${to}], nullable: true${more} }`;
      await migrate(field('about', 'boards'), { boards: boards('board') });
      await model.sql(
        'insert into boards (organization_id, id, created_at, updated_at) values (1, 7, now(), now())',
      );
      await insert(', about_board_id', ', 7');
      const values = (resource: string) => [onLead, onContact, { resource, id: 7 }];
      assert.deepEqual(await valuesOf('about'), values('boards'));
      const singular = await migrate(field('about', 'boards'), { boards: boards('wall') });
      assert.ok(singular.includes('alter table "memos" rename column "about_board_id" to "about_wall_id";'));
      const walls = { walls: `renamed_from: boards\n${boards('panel')}` };
      await migrate(field('subject', 'walls', ', renamed_from: about'), walls);
      assert.deepEqual(await valuesOf('subject'), values('walls'));
      assert.deepEqual(await model.create(), []);
    });

    test('a resource is removed only if its values may be dropped', async () => {
      write('subject: { type: reference, to: [leads, contacts], nullable: true, renamed_from: about }', {
        walls: `renamed_from: boards\n${boards('panel')}`,
      });
      const { undecided } = await model.change();
      assert.equal(undecided.length, 1);
      assert.match(
        String(undecided[0]),
        /"subject_panel_id" was removed, so the values of memos\.subject_panel_id would/,
      );
      await migrate(
        'subject: { type: reference, to: [leads, contacts], nullable: true, renamed_from: about }',
        { walls: `renamed_from: boards\n${boards('panel')}` },
        { drop: ['memos.subject_panel_id'] },
      );
      assert.deepEqual(await valuesOf('subject'), [onLead, onContact, null]);
    });

    test('a field becomes required only if every record has a value', async () => {
      const walls = { walls: `renamed_from: boards\n${boards('panel')}` };
      const required =
        'subject: { type: reference, to: [leads, contacts], required: true, on_delete: cascade, renamed_from: about }';
      write(required, walls);
      const [check] = (await model.change()).checks;
      assert.equal(check?.says, 'is required but has no value');
      await assert.rejects(
        migrate(required, walls),
        /memos\.subject is required but has no value in 1 record/,
      );
      await model.sql('delete from memos where num_nonnulls(subject_lead_id, subject_contact_id) = 0');
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      await assert.rejects(insert('', ''), /memos_subject_target/);
      await model.sql('alter table memos drop constraint memos_subject_target');
      assert.deepEqual(await model.drift(), ['memos_subject_target of memos is missing or invalid']);
      await model.sql(
        'alter table memos add constraint memos_subject_target check (num_nonnulls("subject_lead_id", "subject_contact_id") = 1)',
      );
    });

    test('a retired field keeps its values, and new records do not need one', async () => {
      const walls = { walls: `renamed_from: boards\n${boards('panel')}` };
      const retired =
        'subject: { type: reference, to: [leads, contacts], required: true, on_delete: cascade, renamed_from: about, retired: true }';
      await migrate(retired, walls);
      await insert('', '');
      const [[count] = []] = await model.sql(
        'select count(*)::text from memos where num_nonnulls(subject_lead_id, subject_contact_id) = 1',
      );
      assert.equal(count, '2');
    });

    test('a new required field is rejected while there are records', async () => {
      const walls = { walls: `renamed_from: boards\n${boards('panel')}` };
      const required =
        'owner: { type: reference, to: [leads, contacts], required: true, on_delete: cascade }';
      const retired =
        'subject: { type: reference, to: [leads, contacts], required: true, on_delete: cascade, renamed_from: about, retired: true }';
      write(`${retired}\n  ${required}`, walls);
      await model.create();
      await assert.rejects(
        applyPending(model.database, model.config),
        /memos\.owner is required but has no value in 3 records/,
      );
      await model.sql('delete from memos');
      await applyPending(model.database, model.config);
      assert.deepEqual(await model.drift(), []);
      await assert.rejects(insert('', ''), /memos_owner_target/);
    });
  });
}
