// The defaults of columns, which existing records and hand-written SQL get, are the values that the API writes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const defaults = {
  title: '{ type: string, default: "it\'s" }',
  body: '{ type: text, default: "a\\nb" }',
  small: '{ type: integer, default: -7 }',
  large: '{ type: int64, default: 9007199254740991 }',
  exact: '{ type: number, default: 0.1 }',
  flag: '{ type: boolean, default: true }',
  day: '{ type: date, default: "2026-03-01" }',
  at: '{ type: timestamp, default: "2026-03-01T09:30:00+05:30" }',
  fee: '{ type: money, currency: EUR, default: { amount: 12.5, currency: EUR } }',
  deposit: '{ type: money, currency: any, default: { amount: 3, currency: NOK } }',
  details: '{ type: json, default: { floors: [1, 2] } }',
  tags: '{ type: list }',
};
const text = `singular: default\ncommon: all\nfields:\n${Object.entries(defaults)
  .map(([name, field]) => `  ${name}: ${field}\n`)
  .join('')}`;

onBothDrivers(
  'defaults of columns',
  (instance) => {
    test('are the values that the API writes', async () => {
      const { id, key } = await instance().organization('acme');
      const created = await instance().call('POST /api/v1/defaults', { key, body: {} });
      assert.equal(created.status, 201, created.text);
      await instance().database.run({
        name: '',
        text: 'insert into defaults (organization_id, created_at, updated_at) values ($1::bigint, now(), now())',
        values: [id],
      });
      const { status, json } = await instance().call('GET /api/v1/defaults?sort=id', { key });
      assert.equal(status, 200);
      const [byApi, bySql] = json.data as Record<string, unknown>[];
      for (const name of Object.keys(defaults)) assert.deepEqual(bySql?.[name], byApi?.[name], name);
      assert.equal(byApi?.at, '2026-03-01T09:30:00+05:30');
    });
  },
  { sources: await sourcesWith({ file: 'resources/defaults.yaml', text }) },
);
