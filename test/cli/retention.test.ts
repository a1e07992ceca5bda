// `crm prune` deletes old rows, and counts them with --dry-run.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { crm, crmJson, migratedStorage, onDatabase, rowsApart, type Storage } from '../support/process.ts';

for (const driver of drivers) {
  describe(`prune (${driver})`, () => {
    let storage: Storage;
    before(async () => {
      storage = await migratedStorage(driver);
      await onDatabase(storage.environment, async (query) => {
        await query(`insert into crm_organizations (slug, name) values ('acme', 'Acme'), ('beta', 'Beta')`);
        const row = `select id, now() - interval '500 days', 'command', 'create', 'key' from crm_organizations`;
        const into = 'insert into crm_ledger (organization_id, at, actor_kind, action, object)';
        // More rows of each organization than one batch deletes.
        await query(`${into} ${row}, generate_series(1, 600)`);
        await query(`${into} ${row.replace('500', '300')}`);
        await query(
          `insert into crm_oauth_clients (id, name, redirect_uris, created_at) values ('registered-x', '', '[]', now() - interval '2 days')`,
        );
      });
    });
    after(() => storage.remove());
    const remaining = async () =>
      (await rowsApart(storage.environment, 'select count(*)::text from crm_ledger'))[0]?.[0];

    test('deletes nothing with --dry-run', async () => {
      const { stdout, code } = await crm(['prune', '--dry-run'], storage.environment);
      assert.equal(code, 0);
      assert.match(stdout, /^old changes +1200\n/m);
      assert.match(stdout, /^unused OAuth clients +1\n/m);
      assert.match(stdout, /Nothing was removed\./);
      const labels = [...stdout.matchAll(/^(\S.*?) +\d+$/gm)].map(([, label]) => label);
      assert.deepEqual(labels.sort(), [
        ...['ended connected apps', 'merges', 'old calls of agents', 'old changes', 'old events items'],
        ...['old inbox items', 'old jobs', 'old proposals of agents', 'old usage', 'stored responses'],
        'unused OAuth clients',
      ]);
      assert.equal(await remaining(), '1202');
    });

    test('deletes old rows and keeps newer ones', async () => {
      const { removed } = await crmJson(['prune'], storage.environment);
      const counts = removed as Record<string, number>;
      assert.deepEqual([counts['old changes'], counts['unused OAuth clients']], [1200, 1]);
      assert.equal(await remaining(), '2');
    });
  });
}
