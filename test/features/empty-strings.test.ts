// Strings that were never set are empty, and a record can be sent back as it was read, regardless of its
// patterns.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const parts = {
  file: 'resources/parts.yaml',
  text: `singular: part
common: all
fields:
  name: { type: string, description: Name. }
  code: { type: string, pattern: "^[A-Z]{2}-[0-9]+$", description: Code. }
  notes: { type: text, pattern: "[.]$", description: Notes. }
sort: { by: created_at, direction: desc }
`,
};

onBothDrivers(
  'Empty strings',
  (instance) => {
    test('a pattern does not apply to the empty value', async () => {
      const { key } = await instance().organization('acme');
      const call = (request: string, body?: unknown) =>
        instance().call(request.replace(' ', ' /api/v1/'), { key, body });
      const { json } = await call('POST parts', { name: 'Bolt' });
      assert.deepEqual([json.code, json.notes], ['', '']);
      const read = (await call(`GET parts/${json.id}`)).json;
      const { status, text } = await call(`PUT parts/${json.id}`, read);
      assert.equal(status, 200, text);
      assert.equal((await call(`PATCH parts/${json.id}`, { code: '' })).status, 200);
      const headers = { 'content-type': 'text/csv' };
      const imported = await instance().call('POST /api/v1/parts/import', {
        key,
        headers,
        body: 'name,code\nNut,\nScrew,SC-1\nBad,x\n',
      });
      assert.deepEqual([imported.json.created, imported.json.failed], [2, 1]);
      for (const value of [' ', 'x']) {
        const response = await call(`PATCH parts/${json.id}`, { code: value });
        assert.deepEqual([response.status, response.json.error], [400, 'code must match ^[A-Z]{2}-[0-9]+$']);
      }
    });
  },
  { sources: await sourcesWith(parts) },
);
