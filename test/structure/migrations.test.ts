// Separate instances use the platform's migrations from this package and have their own migrations for their
// resources.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectFolder } from '../../engine/config/variables.ts';
import { migrationSequences } from '../../engine/schema/sequences.ts';

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
