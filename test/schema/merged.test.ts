// Two branches that add the same field each have a valid migration. The merged migrations cannot be applied,
// which is reported before any database is changed.
import assert from 'node:assert/strict';
import { copyFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { crm, migratedStorage, type Storage } from '../support/process.ts';

for (const driver of drivers) {
  describe(`merged branches (${driver})`, { concurrency: 1 }, () => {
    let own: OwnFiles;
    let storage: Storage;
    let environment: Readonly<Record<string, string>>;
    before(async () => {
      own = ownFiles();
      storage = await migratedStorage(driver);
      environment = { ...storage.environment, ...own.environment };
    });
    after(async () => {
      own.remove();
      await storage.remove();
    });

    test('reports a field added by both branches with both migrations in check, plan and migrate', async () => {
      const folder = join(own.path, 'migrations');
      const elsewhere = temporaryFolder();
      const shipped = own.migrations();
      const added = () => readdirSync(folder).filter((name) => !shipped.includes(name));
      own.edit('leads', /^fields:$/m, 'fields:\n  fax: { type: string, description: Fax. }');
      assert.equal((await crm(['migrate', '--create', 'ours'], environment)).code, 0);
      const ours = added();
      for (const name of ours) {
        copyFileSync(join(folder, name), join(elsewhere.path, name));
        own.removeMigration(name);
      }
      assert.equal((await crm(['migrate', '--create', 'theirs'], environment)).code, 0);
      const theirs = added();
      for (const name of ours) copyFileSync(join(elsewhere.path, name), join(folder, name));
      elsewhere.remove();

      const [first = '', second = ''] = [...ours, ...theirs]
        .filter((name) => name.endsWith('.ts'))
        .sort()
        .map((name) => name.replace('.ts', ''));
      const message = `${second}.ts  adds leads.fax, which ${first} adds already. Delete this migration and ${second}.json, then run "crm migrate --create" for the rest of its changes.`;
      for (const command of [
        ['check'],
        ['plan', '--offline'],
        ['migrate'],
        ['migrate', '--create', 'more'],
      ]) {
        const { code, stderr } = await crm(command, environment);
        assert.equal(code, 1, command.join(' '));
        assert.ok(stderr.includes(message), stderr);
      }
      for (const ending of ['ts', 'json']) own.removeMigration(`${second}.${ending}`);
      assert.equal((await crm(['check'], environment)).code, 0);
      const { code, stderr } = await crm(['migrate'], environment);
      assert.equal(code, 0, stderr);
    });
  });
}
