// The demo organization of the first start: its records, its administrator, and its API key, whose grants include event
// subscriptions.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { organizationId, tablesOf } from '../../../engine/tables/index.ts';
import { createDemo } from '../../../plugins/operations/demo/demo.ts';
import { demoModule } from '../../../plugins/operations/demo/index.ts';
import { deleteOrganization } from '../../../plugins/tenants/organizations/index.ts';
import { drivers, startInstance } from '../../support/instance.ts';

/** Returns the records of a file of samples, and the day to which their times refer. */
const samplesOf = (folder: string, name: string) =>
  parse(readFileSync(join(folder, `${name}.yaml`), 'utf8')) as {
    readonly as_of: string;
    readonly records: readonly Readonly<Record<string, unknown>>[];
  };

for (const driver of drivers) {
  test(`the first key manages event subscriptions (${driver})`, async () => {
    const instance = await startInstance(driver);
    try {
      const demo = await createDemo(instance.database, instance.config, instance.resources);
      const call = (request: string, body?: object) =>
        instance.call(request, { key: String(demo?.key), ...(body && { body }) });
      const created = await call('POST /events/subscriptions', {
        url: 'https://receiver.example/',
        resources: ['leads'],
      });
      assert.deepEqual([created.status, created.json.profile], [201, 'administrator'], created.text);
      const path = `/events/subscriptions/${created.json.id}`;
      assert.equal((await call('GET /events/subscriptions')).status, 200);
      assert.equal((await call(`PATCH ${path}`, { state: 'off' })).json.state, 'off');
      assert.equal((await call(`POST ${path}/secrets`)).status, 200);
      assert.equal((await call(`DELETE ${path}`)).status, 200);
    } finally {
      await instance.close();
    }
  });

  test(`the demo organization has the samples with their references, and their times are moved by whole days (${driver})`, async () => {
    const instance = await startInstance(driver);
    try {
      const { database, config, resources } = instance;
      const today = () => Math.floor(Date.now() / 86_400_000);
      const before = today();
      const demo = await createDemo(database, config, resources);
      const after = today();
      const read = async (path: string) =>
        (await instance.call(`GET /api/v1/${path}`, { key: String(demo?.key) })).json;
      const accounts = samplesOf(config.samples, 'accounts').records;
      const { as_of: asOf, records: contacts } = samplesOf(config.samples, 'contacts');
      const { data } = (await read('contacts?page_size=1')) as {
        data: readonly Record<string, unknown>[];
      };
      const [stored = assert.fail()] = data;
      const sample =
        contacts.find(({ email }) => email === stored.email) ?? assert.fail(String(stored.email));
      const account = await read(`accounts/${stored.account_id}`);
      assert.equal(account.name, accounts[Number(sample.account_id) - 1]?.name);
      const moved =
        (Date.parse(String(stored.created_at)) - Date.parse(String(sample.created_at))) / 86_400_000;
      const days = [before, after].map((day) => day - Date.parse(asOf) / 86_400_000);
      assert.ok(days.includes(moved), `${moved} days instead of ${days}`);
    } finally {
      await instance.close();
    }
  });

  test(`the demo organization is created once, and reported until its administrator is disabled (${driver})`, async () => {
    const instance = await startInstance(driver);
    try {
      const { database, config, resources } = instance;
      const tables = tablesOf(database);
      const findings = async () => {
        const [check] = demoModule.checks ?? [];
        return ((await check?.run({ database })) ?? []).map(({ location }) => location);
      };
      assert.deepEqual(await findings(), []);
      const demo = await createDemo(database, config, resources);
      assert.deepEqual(await findings(), ['organization demo']);
      assert.equal(await createDemo(database, config, resources), undefined);
      const setDisabled = (at: Date | null) =>
        tables
          .updateTable('crm_users')
          .set({ disabled_at: at })
          .where('email', '=', String(demo?.email))
          .execute();
      await setDisabled(new Date());
      assert.deepEqual(await findings(), []);
      await setDisabled(null);
      await deleteOrganization(database, await organizationId(tables, 'demo'));
      assert.deepEqual(await findings(), []);
      assert.equal(await createDemo(database, config, resources), undefined, 'not again after its deletion');
    } finally {
      await instance.close();
    }
  });
}
