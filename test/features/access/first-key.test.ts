// The API key that the first start prints belongs to the profile administrator, whose grants include event subscriptions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDemo } from '../../../plugins/operations/demo/demo.ts';
import { drivers, startInstance } from '../../support/instance.ts';

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
}
