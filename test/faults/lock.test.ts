// Two processes with the same embedded folder would lose each other's acknowledged writes, so only one can
// open it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { assertRefused, crm, migratedStorage, type Storage, serve } from '../support/process.ts';

describe("the data folder's lock", { concurrency: 1 }, () => {
  let storage: Storage;
  before(async () => {
    storage = await migratedStorage('embedded');
  });
  after(() => storage.remove());

  test('locks the folder while the process lives and releases it right after kill -9', async () => {
    const { environment, folder } = storage;
    const message = `the data folder ${folder} is in use by another process; stop it, or choose another with DATA_DIR`;
    const first = await serve(environment);
    assertRefused(await crm(['serve', '--json'], { ...environment, PORT: '0' }), message);
    assert.equal((await first.call('GET /docs/openapi.json')).status, 200);
    await first.kill();
    assert.equal((await crm(['key', 'list', '--org', 'demo'], environment)).code, 0);
    const second = await serve(environment);
    assert.deepEqual(Object.keys(second.printed), ['url', 'database']);
    await second.kill();
  });
});
