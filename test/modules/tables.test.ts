// Tables of an instance's own modules: their migrations, and the confirmation before they are dropped.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { defineModuleTable } from '../../app/define-module.ts';
import { modelOf } from '../../app/instance.ts';
import { modules } from '../../app/modules.ts';
import { createMigration } from '../../engine/schema/create.ts';
import { planChanges } from '../../engine/schema/plan.ts';
import { identity, tenant, textColumn } from '../../engine/tables/columns.ts';
import { temporaryFolder } from '../support/instance.ts';

const folder = temporaryFolder();
after(folder.remove);
const config = { ...readConfig({ MIGRATIONS_DIR: folder.path }), platformMigrations: null };

/** Returns the model of an instance without resources, with a module that has a table with these columns. */
const modelWith = (...columns: readonly string[]) => {
  const properties = Object.fromEntries(columns.map((name) => [name, { ...textColumn, nullable: true }]));
  const table = defineModuleTable('crm_visits', { ...tenant(), id: identity, ...properties });
  return modelOf([], { modules: [...modules, { name: 'visits', tables: [table] }] });
};

const undecided = async (model: ReturnType<typeof modelOf>) =>
  (await planChanges(config, model, [], {}, undefined)).undecided;

describe('the tables of modules', { concurrency: 1 }, () => {
  test('are created and changed by migrations', async () => {
    await createMigration(config, modelOf([]), 'initial');
    const created = await createMigration(config, modelWith('page', 'note'), 'visits');
    assert.deepEqual(
      created.statements.map((statement) => statement.replace(/\s*\([\s\S]*/, '')),
      [
        'create table "crm_visits"',
        ...created.statements.slice(1).map((text) => text.replace(/\s*\([\s\S]*/, '')),
      ],
    );
    assert.ok(created.statements.every((statement) => statement.includes('crm_visits')));
    assert.deepEqual((await createMigration(config, modelWith('page', 'note'), 'same')).statements, []);
  });

  test('keep their columns unless dropping them is confirmed', async () => {
    const message = `the column "note" was removed, so the values of crm_visits.note would be dropped. Choose one:
  restore "note" in the module with crm_visits: keep the values
  --allow-drop crm_visits.note    with this command: drop its values`;
    assert.deepEqual(await undecided(modelWith('page')), [message]);
    await assert.rejects(createMigration(config, modelWith('page'), 'note'), { name: 'UserError' });
    const { statements } = await createMigration(config, modelWith('page'), 'note', {
      drop: ['crm_visits.note'],
    });
    assert.match(statements.join(';'), /drop column "note"/);
  });

  test('are kept without their module unless dropping them is confirmed', async () => {
    const message = `the table "crm_visits" was removed, so its rows would be dropped. Choose one:
  restore the module with crm_visits in config.yaml: keep its rows
  --allow-drop crm_visits    with this command: drop its rows`;
    assert.deepEqual(await undecided(modelOf([])), [message]);
    await assert.rejects(createMigration(config, modelOf([]), 'gone'), { name: 'UserError' });
    const { statements } = await createMigration(config, modelOf([]), 'gone', { drop: ['crm_visits'] });
    assert.match(statements.join(';'), /drop table[^;]*"crm_visits"/);
  });
});
