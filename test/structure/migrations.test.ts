// Separate instances use the platform's migrations from this package and have their own migrations for their
// resources.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectFolder } from '../../engine/config/variables.ts';
import { migrationSequences } from '../../engine/schema/sequences.ts';
import { temporaryFolder } from '../support/instance.ts';

const folder = join(projectFolder, 'migrations');
const names = readdirSync(folder).filter((name) => /^Migration\d+.*\.json$/.test(name));

test('no migration changes both platform tables and resource tables', () => {
  for (const name of names) {
    const { tables, api = {} } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Record<
      'tables' | 'api',
      object
    >;
    const changed = [...Object.keys(tables), ...Object.keys(api)];
    const platform = changed.filter((each) => each.startsWith('crm_'));
    assert.ok(
      platform.length === 0 || platform.length === changed.length,
      `${name}: write two migrations instead`,
    );
  }
});

test("an instance runs the platform's migrations before its own", () => {
  const own = join(import.meta.dirname, 'none');
  const [platform, mine] = migrationSequences({ migrations: own, platformMigrations: folder });
  assert.ok(platform?.files.has('Migration20261121091450_initial'));
  assert.ok(platform?.patches.includes('Migration20261122201630_name_uses'));
  assert.deepEqual([mine?.folder, mine?.files.size, mine?.patches], [own, 0, []]);
});

test("an instance omits the platform's migrations of resources, and files that are not migrations", () => {
  const { path, remove } = temporaryFolder();
  const [platformMigrations, migrations] = [join(path, 'platform'), join(path, 'own')];
  const patches = {
    Migration2_platform: { tables: { crm_users: {} } },
    Migration3_resource: { tables: { crm_users: {}, leads: {} } },
    Migration4_api: { tables: {}, api: { leads: {} } },
  };
  try {
    for (const folder of [platformMigrations, migrations]) {
      mkdirSync(folder, { recursive: true });
      for (const name of ['Migration1_first', ...Object.keys(patches)])
        writeFileSync(join(folder, `${name}.js`), '');
      for (const name of ['Migration1_first.d.ts', 'Migration1_first.js.map', 'helper.ts', 'Migration.ts'])
        writeFileSync(join(folder, name), '');
      for (const [name, patch] of Object.entries(patches))
        writeFileSync(join(folder, `${name}.json`), JSON.stringify(patch));
    }
    const found = migrationSequences({ migrations, platformMigrations });
    const without = migrationSequences({ migrations, platformMigrations: null });
    const all = ['Migration1_first', ...Object.keys(patches)];
    assert.deepEqual(
      [...found, ...without].map(({ files, patches }) => [[...files], patches]),
      [['Migration1_first', 'Migration2_platform'], all, all].map((names) => [
        names.map((name) => [name, `${name}.js`]),
        names.slice(1),
      ]),
    );
  } finally {
    remove();
  }
});
