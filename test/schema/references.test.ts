// Fields of type references in migrations and backups: the link table is created, renamed and dropped with its field.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import {
  assertRefused,
  crm,
  crmJson,
  emptyStorage,
  migratedStorage,
  rows,
  type Storage,
} from '../support/process.ts';

for (const driver of drivers) {
  describe(`references in migrations (${driver})`, { concurrency: 1 }, () => {
    let storage: Storage;
    let own: OwnFiles;
    let environment: Readonly<Record<string, string>>;
    /** Creates a migration and applies it. */
    const migrate = async (name: string, ...options: string[]) => {
      const { statements } = await crmJson(['migrate', '--create', name, ...options], environment);
      const { code, stderr } = await crm(['migrate'], environment);
      assert.equal(code, 0, stderr);
      return statements as string[];
    };
    const linksIn = (table: string) =>
      rows(environment, `select "record_id"::text, "target_id"::text from "${table}" order by 1, 2`);
    const common = 'common: [id, organization_id]\nfields:\n  name: { type: string }\n';
    before(async () => {
      own = ownFiles();
      storage = await migratedStorage(driver);
      environment = { ...storage.environment, ...own.environment };
      own.add('tags', common);
      own.add('notes', common);
      await migrate('notes');
      await rows(environment, `insert into crm_organizations (slug, name) values ('alpha', 'Alpha')`);
      const organization = `(select id from crm_organizations where slug = 'alpha')`;
      for (const table of ['tags', 'notes'])
        await rows(
          environment,
          `insert into ${table} (organization_id, id, name) select ${organization}, n, n::text from generate_series(1, 3) n`,
        );
    });
    after(async () => {
      await storage.remove();
      own.remove();
    });

    test('adding a field to a table with records creates its link table and triggers', async () => {
      own.add('notes', `${common}  label_ids: { type: references, to: tags }\nfilters: [label_ids]\n`);
      const statements = await migrate('labels');
      for (const part of ['create table "notes_Links_label_ids"', 'create trigger "linksAdded"'])
        assert.ok(
          statements.some((statement) => statement.includes(part)),
          `${part} in\n${statements.join('\n')}`,
        );
      await rows(environment, `update notes set label_ids = '{1,2}' where id < 3`);
      assert.deepEqual(await linksIn('notes_Links_label_ids'), [
        ['1', '1'],
        ['1', '2'],
        ['2', '1'],
        ['2', '2'],
      ]);
      assert.equal((await crm(['check'], environment)).code, 0);
    });

    test('renaming the field and the resource renames the link table', async () => {
      own.add(
        'notes',
        `${common}  tag_ids: { type: references, to: tags, renamed_from: label_ids }\nfilters: [tag_ids]\n`,
      );
      const first = await migrate('tag_ids');
      assert.ok(first.includes('alter table "notes_Links_label_ids" rename to "notes_Links_tag_ids";'));
      own.add('pages', `renamed_from: notes\n${own.text('notes')}`);
      own.drop('notes');
      const second = await migrate('pages');
      for (const statement of [...first, ...second])
        assert.doesNotMatch(statement, /create table|drop table|create index|drop index|foreign key/);
      await rows(environment, `update pages set tag_ids = '{2,3}' where id = 2`);
      assert.deepEqual(await linksIn('pages_Links_tag_ids'), [
        ['1', '1'],
        ['1', '2'],
        ['2', '2'],
        ['2', '3'],
      ]);
      const named = await rows(
        environment,
        `select relname::text from pg_class where relname ~ 'notes_Links|Links_label'
         union all select conname::text from pg_constraint where conname ~ 'notes_Links|Links_label' and contype <> 'n'
         union all select proname::text from pg_proc where proname ~ 'notes_links'`,
      );
      assert.deepEqual(named, []);
      const status = await crm(['migrate', '--status'], environment);
      assert.equal(status.code, 0, status.stdout);
    });

    test('another target or type is rejected', async () => {
      const text = own.text('pages');
      own.edit('pages', 'to: tags', 'to: pages');
      const target = await crm(['migrate', '--create', 'target'], environment);
      assertRefused(target, /"tag_ids" refers to tags and cannot refer to pages/);
      own.add('pages', text.replace('type: references, to: tags', 'type: string'));
      const type = await crm(['migrate', '--create', 'type'], environment);
      assertRefused(type, /"tag_ids" cannot be converted from references to string/);
      own.add('pages', text);
    });

    test('a backup contains the references', async () => {
      const file = `${own.path}/backup.ndjson`;
      assert.equal((await crm(['backup', file], environment)).code, 0);
      const other = await emptyStorage(driver);
      try {
        const target = { ...environment, ...other.environment };
        const { code, stderr } = await crm(['restore', file], target);
        assert.equal(code, 0, stderr);
        const read = (from: Readonly<Record<string, string>>) =>
          rows(from, `select id::text, tag_ids::text from pages order by id`);
        assert.deepEqual(await read(target), await read(environment));
        await rows(target, `update pages set tag_ids = '{3}'`);
        assert.deepEqual(await rows(target, `select distinct "target_id"::text from "pages_Links_tag_ids"`), [
          ['3'],
        ]);
      } finally {
        await other.remove();
      }
    });

    test('a retired field keeps its references and its link table', async () => {
      const text = own.text('pages');
      own.add(
        'pages',
        text.replace('to: tags,', 'to: tags, retired: true,').replace('filters: [tag_ids]\n', ''),
      );
      const retired = await migrate('retire');
      await rows(environment, `update pages set tag_ids = '{1}' where id = 3`);
      own.add('pages', text);
      // Only the index for the filter is dropped and created again.
      for (const statement of [...retired, ...(await migrate('restore'))])
        assert.doesNotMatch(statement, /links/i);
      assert.deepEqual(await linksIn('pages_Links_tag_ids'), [
        ['1', '1'],
        ['1', '2'],
        ['2', '2'],
        ['2', '3'],
        ['3', '1'],
      ]);
      assert.equal((await crm(['check'], environment)).code, 0);
    });

    test('dropping the field counts its values and drops the link table', async () => {
      own.edit('pages', /\n {2}tag_ids: .*\nfilters: \[tag_ids\]/, '');
      const undecided = await crm(['migrate', '--create', 'drop'], environment);
      assert.equal(undecided.code, 1);
      assert.match(undecided.stderr, /the values of pages\.tag_ids would be dropped/);
      assert.match(undecided.stderr, /tag_ids: \{ type: references, to: tags, retired: true \}/);
      await migrate('drop', '--allow-drop', 'pages.tag_ids');
      const left = await rows(
        environment,
        `select relname::text from pg_class where relname ~ 'Links' union all select tgname::text from pg_trigger where tgname ~ '^links'`,
      );
      assert.deepEqual(left, []);
      await rows(environment, `delete from tags`);
    });
  });
}
