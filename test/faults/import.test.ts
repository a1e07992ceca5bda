// After the service is killed during an import, the stored records are a prefix of the file, in complete
// batches.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { crmJson, migratedStorage, rowsApart, type Storage, serve, until } from '../support/process.ts';

for (const driver of drivers) {
  describe(`an import interrupted by a kill (${driver})`, () => {
    let storage: Storage;
    after(() => storage.remove());

    test('stores every line before the last stored one', async () => {
      storage = await migratedStorage(driver);
      const { environment } = storage;
      await crmJson(['org', 'create', 'acme'], environment);
      const { key } = await crmJson(
        ['key', 'create', '--org', 'acme', '--profile', 'administrator'],
        environment,
      );
      const service = await serve(environment);
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/x-ndjson' };
      const sent = request(`${service.url}/api/v1/leads/import`, { method: 'POST', headers });
      sent.on('error', () => {});
      for (let line = 1; line <= 2500; line++) sent.write(`{"lead_score":${line}}\n`);
      const stored = async () => {
        const answer = await service.call('GET /api/v1/leads', {
          key: String(key),
          headers: { prefer: 'count=exact' },
        });
        return Number(answer.headers.get('x-total-count'));
      };
      await until(async () => (await stored()) > 0, 'the first part');
      await service.kill();
      const text = 'select count(*)::text, max(lead_score)::text from leads';
      const [[count, last] = []] = await rowsApart(environment, text);
      assert.equal(count, last, 'every line up to the last stored one');
      assert.ok(count === '1000' || count === '2000', String(count));
    });
  });
}
