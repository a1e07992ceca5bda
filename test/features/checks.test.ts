// Checks: conditions on several fields, evaluated by the database in every write.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const leases = {
  file: 'leases.yaml',
  text: `
singular: lease
common: all
fields:
  valid_from: { type: date, nullable: true }
  valid_to: { type: date, nullable: true }
  rent: { type: number }
  deposit: { type: number }
  state: { type: string, enum: [draft, signed], closed: true, default: draft }
checks:
  - { that: valid_to >= valid_from, fields: [valid_to], message: Ends before it begins. }
  - { that: deposit <= 3 * rent, fields: [rent, deposit], message: The deposit exceeds three rents. }
  - { that: 'state == "draft" || valid_from != null', fields: [valid_from], message: A signed lease needs a start. }
  - { that: deposit + rent >= 0, fields: [rent, deposit], message: The sum must not be negative. }
`,
};

onBothDrivers(
  'checks',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body, ...call });
    const run = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
    const create = async (body: object = {}) => {
      const { status, json, text } = await send('POST /leases', body);
      assert.equal(status, 201, text);
      return Number(json.id);
    };
    const dates = { valid_from: '2026-03-01', valid_to: '2026-02-28' };
    const ends = 'Ends before it begins.';

    test('a violation is a 400 that names the fields and the message', async () => {
      const id = await create();
      for (const [body, fields, message] of [
        [dates, ['valid_to'], ends],
        [{ rent: 100, deposit: 300.01 }, ['rent', 'deposit'], 'The deposit exceeds three rents.'],
        [{ state: 'signed' }, ['valid_from'], 'A signed lease needs a start.'],
        [{ rent: -1, deposit: -3 }, ['rent', 'deposit'], 'The sum must not be negative.'],
      ] as const) {
        for (const request of ['POST /leases', `PUT /leases/${id}`, `PATCH /leases/${id}`]) {
          const { status, json } = await send(request, body);
          assert.deepEqual(
            [status, json.code, json.error, json.fields],
            [400, 'invalid_input', message, fields.map((field) => ({ field, message }))],
            request,
          );
        }
      }
    });

    test('a patch is checked together with the stored values', async () => {
      const id = await create({ valid_from: '2026-03-01' });
      const patch = async (body: object) => (await send(`PATCH /leases/${id}`, body)).status;
      assert.equal(await patch({ valid_to: '2026-02-28' }), 400);
      assert.equal(await patch({ valid_to: '2026-03-01' }), 200);
      assert.equal(await patch({ valid_from: '2026-03-02' }), 400);
      assert.equal(await patch({ valid_from: null }), 200);
      // Without one of the values, the condition is undecided and therefore met.
      assert.equal(await patch({ valid_to: '2020-01-01' }), 200);
      await assert.rejects(
        run(`update leases set valid_from = '2026-01-01' where id = ${id}`),
        /leases_valid_to_check/,
      );
    });

    test('concurrent patches cannot violate a check together', async () => {
      const ids = await Promise.all(
        Array.from({ length: 10 }, () => create({ valid_from: '2026-01-01', valid_to: '2026-12-31' })),
      );
      const answers = await Promise.all(
        ids.flatMap((id) => [
          send(`PATCH /leases/${id}`, { valid_from: '2026-08-01' }),
          send(`PATCH /leases/${id}`, { valid_to: '2026-04-01' }),
        ]),
      );
      for (const index of ids.keys())
        assert.deepEqual([answers[2 * index]?.status, answers[2 * index + 1]?.status].sort(), [200, 400]);
    });

    test('batches and imports report the records', async () => {
      const records = [{ rent: 1 }, dates, { deposit: 5 }];
      const stopped = await send('POST /leases/batch', { records });
      assert.deepEqual(stopped.json.fields, [
        { field: 'records[1].valid_to', message: `records[1]: ${ends}` },
        { field: 'records[2].rent', message: 'records[2]: The deposit exceeds three rents.' },
        { field: 'records[2].deposit', message: 'records[2]: The deposit exceeds three rents.' },
      ]);
      const continued = await send('POST /leases/batch', { records, on_error: 'continue' });
      assert.deepEqual(
        (continued.json.results as { status: number }[]).map(({ status }) => status),
        [201, 400, 400],
      );
      const { json } = await send('POST /leases/import', undefined, {
        body: 'valid_from,valid_to\n2026-01-01,2026-01-01\n2026-01-02,2026-01-01\n',
        headers: { 'content-type': 'text/csv' },
      });
      assert.deepEqual(
        (json.lines as { line: number; error: string }[]).map(({ line, error }) => [line, error]),
        [[3, ends]],
      );
    });

    test('the API description contains the conditions, and forms show the message', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { LeaseInput, LeasePatch } = (
        json as { components: { schemas: Record<string, { description: string }> } }
      ).components.schemas;
      for (const schema of [LeaseInput, LeasePatch])
        assert.match(
          schema?.description ?? '',
          /Every record must meet `valid_to >= valid_from` and `deposit <= 3 \* rent` and/,
        );
      const browser = await signIn(instance(), administratorOf(acme));
      const page = '/setup/o/acme/data/leases/new';
      const rejected = await browser.submit(page, page, dates);
      assert.equal(rejected.status, 400);
      assert.match(readable(rejected.text), /Ends before it begins\./);
    });
  },
  { sources: await sourcesWith(leases) },
);
