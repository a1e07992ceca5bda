// What is old is removed now, and first counted.
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
        await query(`insert into crm_organizations (slug, name) values ('acme', 'Acme')`);
        const row = `select id, now() - interval '500 days', 'command', 'create', 'key' from crm_organizations`;
        const into = 'insert into crm_ledger (organization_id, at, actor_kind, action, object)';
        // More than one step removes.
        await query(`${into} ${row}, generate_series(1, 600)`);
        await query(`${into} ${row.replace('500', '300')}`);
      });
    });
    after(() => storage.remove());
    const left = async () =>
      (await rowsApart(storage.environment, 'select count(*)::text from crm_ledger'))[0]?.[0];

    test('with --dry-run nothing is removed', async () => {
      const { stdout, code } = await crm(['prune', '--dry-run'], storage.environment);
      assert.equal(code, 0);
      assert.match(stdout, /^old changes +600\n/m);
      assert.match(stdout, /Nothing was removed\./);
      assert.equal(await left(), '601');
    });

    test('then it is, and what is younger stays', async () => {
      const { removed } = await crmJson(['prune'], storage.environment);
      assert.equal((removed as Record<string, number>)['old changes'], 600);
      assert.equal(await left(), '1');
    });
  });
}
