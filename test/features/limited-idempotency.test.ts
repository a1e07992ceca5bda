// Idempotency-Key: if the caller's rights are limited, a repeated request returns the record as the caller sees it now.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { jobs, limitedKey, limitedPerson, setGrants } from '../support/limited.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const seals = {
  file: 'seals.yaml',
  text: `
singular: seal
common: all
fields:
  code: { type: string, unique: true }
  open: { type: boolean, default: true }
scopes:
  open: open == true
`,
};

onBothDrivers(
  'limited repeated requests',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    let keys = 0;
    /** Returns a function that sends the same request repeatedly. */
    const repeatable = (key: string, body: object, path = '/api/v1/jobs') => {
      const once = `once-${++keys}`;
      return (other = body) =>
        instance().call(`POST ${path}`, {
          body: other,
          headers: { authorization: `Bearer ${key}`, 'idempotency-key': once },
        });
    };
    const change = async (id: unknown, body: object) => {
      const answer = await instance().call(`PATCH /api/v1/jobs/${id}`, { key: acme.key, body });
      assert.equal(answer.status, 200, answer.text);
    };

    test('the current record, with its current tag, or 404 once it is not visible', async () => {
      const { key } = await limitedKey(instance(), acme, ['jobs:create', 'jobs:read:open']);
      const post = repeatable(key, { name: 'n1' });
      const first = await post();
      assert.equal(first.status, 201, first.text);
      const { id } = first.json;
      const same = await post();
      assert.deepEqual([same.status, same.text], [201, first.text]);
      for (const name of ['etag', 'location']) assert.equal(same.headers.get(name), first.headers.get(name));
      await change(id, { name: 'n2' });
      const current = await post();
      const read = await instance().call(`GET /api/v1/jobs/${id}`, { key });
      assert.deepEqual([current.status, current.text], [201, read.text]);
      assert.equal(current.headers.get('etag'), read.headers.get('etag'));
      assert.equal(current.headers.get('idempotency-replayed'), 'true');
      assert.equal(read.json.name, 'n2');
      await change(id, { status: 'Done' });
      const hidden = await post();
      assert.equal(hidden.status, 404, hidden.text);
      assert.equal((await post({ name: 'other' })).status, 422, 'another body');
      await change(id, { status: 'New' });
      assert.equal((await post()).status, 201);
      await instance().call(`DELETE /api/v1/jobs/${id}`, { key: acme.key });
      assert.equal((await post()).status, 404);
    });

    test('callers without limits receive the stored response', async () => {
      const { key } = await limitedKey(instance(), acme, ['*:*']);
      const post = repeatable(key, { name: 'n1' });
      const first = await post();
      await change(first.json.id, { name: 'n2', status: 'Done' });
      assert.deepEqual([(await post()).status, (await post()).text], [201, first.text]);
    });

    test('fields that the caller can no longer read are absent', async () => {
      const { key, profile } = await limitedKey(instance(), acme, [
        'jobs:create',
        'jobs:read:open',
        'jobs.finance:read',
        'jobs.finance:update',
      ]);
      const post = repeatable(key, { name: 'n1', margin: 4711 });
      const first = await post();
      assert.equal(first.json.margin, 4711);
      await setGrants(instance(), acme, profile, ['jobs:create', 'jobs:read:open']);
      await until(async () => !(await post()).text.includes('4711'), 'the grants to change');
      const again = await post();
      assert.deepEqual([again.status, 'margin' in again.json], [201, false], again.text);
    });

    test('a caller that reads nothing receives what it wrote, unless its fields have changed', async () => {
      const { key, profile } = await limitedKey(instance(), acme, [
        'jobs:create',
        'jobs.finance:read',
        'jobs.finance:update',
      ]);
      const post = repeatable(key, { name: 'n1', margin: 4711 });
      const first = await post();
      assert.equal(first.status, 201, first.text);
      await change(first.json.id, { name: 'secret' });
      assert.deepEqual([(await post()).status, (await post()).text], [201, first.text]);
      const batch = repeatable(key, { records: [{ name: 'n2' }] }, '/api/v1/jobs/batch');
      const written = await batch();
      assert.match(written.text, /^\{"results":\[\{"status":201,"id":\d+\}\]\}$/);
      assert.equal((await batch()).text, written.text);
      await setGrants(instance(), acme, profile, ['jobs:create']);
      await until(async () => (await post()).status === 404, 'the grants to change');
    });

    test('a batch reports records that are not visible as missing', async () => {
      const ann = await limitedPerson(instance(), acme, ['jobs:create', 'jobs:read:own']);
      const post = repeatable(
        ann.key,
        { records: [{ name: 'a' }, { name: 'b', score: 'x' }, { name: 'c' }], on_error: 'continue' },
        '/api/v1/jobs/batch',
      );
      const first = await post();
      assert.equal(first.status, 200, first.text);
      const results = first.json.results as { status: number; id: number }[];
      assert.deepEqual(
        results.map(({ status }) => status),
        [201, 400, 201],
      );
      assert.equal((await post()).text, first.text);
      await change(results[2]?.id, { owner_id: Number(acme.user) });
      const again = await post();
      assert.equal(again.headers.get('idempotency-replayed'), 'true');
      const [kept, rejected, missing] = again.json.results as { status: number; id?: number }[];
      assert.deepEqual([kept, rejected], results.slice(0, 2));
      assert.deepEqual([missing?.status, missing?.id], [404, undefined]);
    });

    test('a batch does not name a conflicting record that is no longer visible', async () => {
      const send = (request: string, body: object) => instance().call(request, { key: acme.key, body });
      const { id } = (await send('POST /api/v1/seals', { code: 'taken' })).json;
      const { key } = await limitedKey(instance(), acme, ['seals:create', 'seals:read:open']);
      const post = repeatable(
        key,
        { records: [{ code: 'taken' }, { code: 'free' }], on_error: 'continue' },
        '/api/v1/seals/batch',
      );
      const first = await post();
      assert.ok(first.text.includes(`,"existing_id":${id}}`), first.text);
      assert.equal((await post()).text, first.text);
      assert.equal((await send(`PATCH /api/v1/seals/${id}`, { open: false })).status, 200);
      assert.equal((await post()).text, first.text.replace(`,"existing_id":${id}}`, '}'));
    });
  },
  { sources: await sourcesWith(jobs, seals) },
);
