// Backups contain custom fields and their values: on either driver, a restored instance has the same definitions, values and
// filters, and keeps the table that filters read up to date.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Served, served } from '../support/backups.ts';
import { runCommand } from '../support/command-line.ts';
import { type Driver, drivers, type Instance } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { crmJson, migratedStorage, type Storage, unmigratedStorage } from '../support/process.ts';

const other: Readonly<Record<Driver, Driver>> = { embedded: 'postgresql', postgresql: 'embedded' };

type Json = Record<string, unknown>;

for (const driver of drivers) {
  describe(`backups with custom fields (${driver})`, () => {
    let own: OwnFiles;
    const storages: Storage[] = [];
    before(async () => {
      own = ownFiles();
      own.edit('leads', 'common: all', 'common: all\ncustom_fields: true');
    });
    after(async () => {
      for (const storage of storages) await storage.remove();
      own.remove();
    });
    const send = async ({ call }: Served, key: string, request: string, body?: object) => {
      const answer = await call(request, { key, ...(body && { body }) });
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer.json;
    };
    /** Returns everything that a restore must preserve. */
    const contents = async (instance: Served, key: string) => {
      const names = async (query: string) => {
        const { data } = await send(instance, key, `GET /api/v1/leads?${query}`);
        return (data as Json[]).map(({ last_name: name, custom }) => [name, custom]);
      };
      return {
        fields: await send(instance, key, 'GET /fields/leads'),
        deleted: await send(instance, key, 'GET /fields/leads?deleted=true'),
        large: await names('custom.size[gte]=40'),
        noted: await names('custom.memo=hello'),
      };
    };

    test('a restored instance has the same fields, values and filters', async () => {
      const source = await migratedStorage(driver);
      const target = await unmigratedStorage(other[driver]);
      storages.push(source, target);
      const file = join(own.path, 'custom.backup');
      await crmJson(['migrate', '--create', 'custom'], { ...source.environment, ...own.environment });
      let instance = await served(source, { ...own.environment, MIGRATE_ON_START: 'true' });
      const key = String(instance.demo?.key);
      for (const field of [
        { name: 'size', type: 'integer', default: 41 },
        { name: 'memo', type: 'text', required: true },
        { name: 'old', type: 'string' },
      ])
        await send(instance, key, 'POST /fields/leads', field);
      const make = (name: string, custom: object) =>
        send(instance, key, 'POST /api/v1/leads', { last_name: name, custom });
      await make('Large', { memo: 'hello', old: 'kept' });
      await make('Small', { memo: 'hello', size: 30 });
      await send(instance, key, 'DELETE /fields/leads/old');
      const expected = await contents(instance, key);
      assert.equal(expected.large.length, 1);
      assert.equal(expected.noted.length, 2);
      await runCommand(instance as unknown as Instance, ['backup', file]);
      await instance.close();
      await crmJson(['restore', file, '--keys', 'keep'], { ...target.environment, ...own.environment });
      instance = await served(target, own.environment);
      try {
        assert.deepEqual(await contents(instance, key), expected);
        await send(instance, key, 'POST /fields/leads/old/restore');
        const { data } = await send(instance, key, 'GET /api/v1/leads?custom.old=kept');
        const [lead] = data as Json[];
        assert.equal(lead?.last_name, 'Large');
        await send(instance, key, `PATCH /api/v1/leads/${lead?.id}`, { custom: { size: 39 } });
        assert.deepEqual((await contents(instance, key)).large, []);
      } finally {
        await instance.close();
      }
    });
  });
}
