// Imports that match records by unique fields: importing the same file again changes nothing, and later lines update
// records of earlier ones.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

onBothDrivers(
  'imports with unique fields',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const load = async (query: string, ...bodies: readonly object[]) => {
      const body = bodies.map((each) => `${JSON.stringify(each)}\n`).join('');
      const headers = { 'content-type': 'application/x-ndjson' };
      const { status, json } = await instance().call(`POST /api/v1/people/import${query}`, {
        key: acme.key,
        body,
        headers,
      });
      assert.equal(status, 200, JSON.stringify(json));
      const lines = json.lines as { line: number; code: string; existing_id?: number }[];
      return { counts: [json.created, json.updated, json.failed], lines };
    };
    const emails = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => ({ email: `e${from + index}@x` }));

    test('a file can be imported again with match', async () => {
      const file = emails(0, 1200);
      assert.deepEqual((await load('?match=email', ...file)).counts, [1200, 0, 0]);
      assert.deepEqual((await load('?match=email', ...file)).counts, [0, 1200, 0]);
      const more = [...file.slice(0, 3), ...emails(1200, 2)];
      assert.deepEqual((await load('?match=email', ...more)).counts, [2, 3, 0]);
    });

    test('a later line with the same key updates the record of the earlier line', async () => {
      const twice = [{ email: 'twice@x' }, { email: 'other@x' }, { email: 'twice@x' }];
      assert.deepEqual((await load('?match=email', ...twice)).counts, [2, 1, 0]);
    });

    test('without match, duplicates are reported with the existing record', async () => {
      const { counts, lines } = await load(
        '',
        { email: 'd@x' },
        { email: 'e0@x' },
        { email: 'd@x' },
        { email: 'f@x' },
      );
      assert.deepEqual(counts, [2, 0, 2]);
      assert.deepEqual(
        lines.map(({ line, code }) => [line, code]),
        [
          [2, 'duplicate'],
          [3, 'duplicate'],
        ],
      );
      assert.ok(lines.every(({ existing_id: id }) => typeof id === 'number'));
    });

    test('dry runs and on_error=stop detect duplicates', async () => {
      const file = [{ email: 'g@x' }, { email: 'e1@x' }, { email: 'h@x' }];
      assert.deepEqual((await load('?dry_run=true', ...file)).counts, [2, 0, 1]);
      assert.deepEqual((await load('?on_error=stop', ...file)).counts, [1, 0, 1]);
      assert.deepEqual(
        (await load('?match=email', ...file)).counts,
        [1, 2, 0],
        'the first record exists by now',
      );
    });
  },
  { sources: await sourcesWith(people) },
);
