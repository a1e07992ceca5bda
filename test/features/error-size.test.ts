// Error responses are limited in size, regardless of the request.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';

const strict = { prefer: 'handling=strict' };
/** Returns an object with this many unknown keys. */
const unknownKeys = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`key_${index}`, 1]));
/** A lead with three invalid fields. */
const invalidLead = { last_name: 1, email: 1, phone: 1 };

interface Problems {
  readonly fields?: readonly { readonly field: string; readonly message: string }[];
  readonly more?: number;
}
const counted = ({ fields = [], more = 0 }: Problems) => [fields.length, more];

onBothDrivers('the size of error responses', (instance) => {
  let acme: Organization;
  before(async () => {
    acme = await instance().organization('acme');
  });
  const post = (path: string, body: object | string, headers: Record<string, string> = {}): Promise<Answer> =>
    instance().call(`POST /api/v1/leads${path}`, { key: acme.key, body, headers });

  test('lists 100 fields and the number of remaining ones', async () => {
    const all = await post('', unknownKeys(100), strict);
    assert.deepEqual([all.status, ...counted(all.json)], [400, 100, 0]);
    assert.ok(!('more' in all.json));
    const { status, json, text } = await post('', unknownKeys(20_000), strict);
    assert.deepEqual([status, json.code, ...counted(json)], [400, 'invalid_input', 100, 19_900]);
    const [, listed = '', rest] =
      /^(key_0 is not a field .*); and (\d+) more$/.exec(String(json.error)) ?? assert.fail(text);
    assert.equal(listed.split('; ').length + Number(rest), 20_000);
    assert.ok(text.length < 32 * 1024, `${text.length} characters`);
  });

  test('shortens long names without splitting surrogate pairs', async () => {
    const body = { ['🔑'.repeat(100_000)]: 1, [`a${'🔑'.repeat(100_000)}`]: 1 };
    const { status, json, text } = await post('', body, strict);
    assert.equal(status, 400);
    assert.ok(text.length < 4096, `${text.length} characters`);
    for (const { field, message } of json.fields as Required<Problems>['fields']) {
      assert.ok(field.isWellFormed() && field.endsWith('…'), field);
      assert.equal(message, `${field} is not a field of this resource`);
    }
    const names = ['k', 'l'].map((letter, index) => letter.repeat(100 + index));
    const limit = await post('', Object.fromEntries(names.map((name) => [name, 1])), strict);
    assert.deepEqual(
      (limit.json.fields as Required<Problems>['fields']).map(({ field }) => field),
      [names[0], `${'l'.repeat(100)}…`],
    );
    const csv = { 'content-type': 'text/csv' };
    const report = await post('/import', `last_name,${'b'.repeat(100_000)}\nx,y\n`, csv);
    assert.deepEqual([report.status, report.json.ignored], [200, [`${'b'.repeat(100)}…`]]);
  });

  test('batches list 100 fields in an error and 1,000 in the results', async () => {
    const records = Array.from({ length: 1000 }, () => invalidLead);
    const stopped = await post('/batch', { records });
    assert.deepEqual([stopped.status, ...counted(stopped.json)], [400, 100, 2900]);
    const wide = await post('/batch', { records: [unknownKeys(5000)] }, strict);
    assert.deepEqual([wide.status, ...counted(wide.json)], [400, 100, 4900]);
    const { status, json } = await post('/batch', { records, on_error: 'continue' });
    const results = json.results as Problems[];
    assert.deepEqual([status, results.length], [200, 1000]);
    assert.deepEqual(
      [0, 332, 333, 334, 999].map((index) => counted(results[index] ?? {})),
      [
        [3, 0],
        [3, 0],
        [1, 2],
        [0, 3],
        [0, 3],
      ],
    );
    assert.ok(results.every((result) => 'error' in result && 'code' in result));
  });

  test('import reports list 1,000 fields', async () => {
    const lines = `${JSON.stringify(invalidLead)}\n`.repeat(1500);
    const { json } = await post('/import', lines, { 'content-type': 'application/x-ndjson' });
    const failed = json.lines as Problems[];
    assert.deepEqual([json.failed, failed.length, json.truncated], [1500, 1000, true]);
    assert.equal(failed.flatMap(({ fields = [] }) => fields).length, 1000);
    assert.deepEqual(counted(failed.at(-1) ?? {}), [0, 3]);
    const names = Array.from({ length: 1999 }, (_, index) => `column_${index}`);
    const header = await post('/import', `last_name,${names}\n`, { 'content-type': 'text/csv', ...strict });
    assert.deepEqual([header.status, ...counted(header.json)], [400, 100, 1899]);
  });
});
