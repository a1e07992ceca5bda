// Upserts by unique phone numbers: with a country, `match` finds every notation of a number.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const callers = {
  file: 'callers.yaml',
  text: `
singular: caller
common: all
fields:
  name: { type: string }
  phone: { type: string, format: phone, unique: true }
  branch: { type: string }
  line: { type: string, format: phone }
unique: [[branch, line]]
filters: [phone]
`,
};

interface Result {
  readonly status: number;
  readonly id?: number;
  readonly code?: string;
  readonly error?: string;
  readonly hint?: string;
}

onBothDrivers(
  'upserts by phone numbers',
  (instance) => {
    let german: Organization;
    let digits: Organization;
    before(async () => {
      [german, digits] = [await instance().organization('german'), await instance().organization('digits')];
      await setCountry(german, 'DE');
    });
    const send = (request: string, { key }: Organization, body?: unknown) =>
      instance().call(request, { key, body });
    const upsert = async (organization: Organization, records: readonly object[], more: object = {}) => {
      const body = { records, match: ['phone'], on_error: 'continue', ...more };
      const { status, json, text } = await send('POST /api/v1/callers/batch', organization, body);
      assert.equal(status, 200, text);
      return json.results as Result[];
    };
    const create = async (organization: Organization, body: object) => {
      const answer = await send('POST /api/v1/callers', organization, body);
      assert.equal(answer.status, 201, answer.text);
      return Number(answer.json.id);
    };
    /** Sets the country, and waits until the organization's key is read again, which takes about a second. */
    const setCountry = async (organization: Organization, country: string) => {
      const probe = ['0160 1111111', '+49 160 1111111'];
      const count = async () => {
        const query = new URLSearchParams({ phone: String(probe[0]) });
        return ((await send(`GET /api/v1/callers?${query}`, organization)).json.data as object[]).length;
      };
      if ((await count()) === 0)
        for (const phone of probe) await create(organization, { name: 'Probe', phone });
      await runCommand(instance(), ['org', 'phone-region', organization.slug, country]);
      await until(async () => (await count()) === (country === 'DE' ? 2 : 1), 'the country');
    };
    const nameOf = async (id: number, organization: Organization) =>
      (await send(`GET /api/v1/callers/${id}`, organization)).json.name;

    test('every notation updates the same record', async () => {
      const id = await create(german, { name: 'first', phone: '0171 1234567' });
      for (const phone of ['+49 171 1234567', '0049 171 1234567', '+49 (0)171 1234567', '0171/1234567']) {
        assert.deepEqual(await upsert(german, [{ name: phone, phone }]), [{ status: 200, id }], phone);
        assert.equal(await nameOf(id, german), phone);
      }
      const [created] = await upsert(german, [{ name: 'other', phone: '0171 1234568' }]);
      assert.equal(created?.status, 201);
    });

    test('without a country, only the digits are compared', async () => {
      await create(digits, { name: 'first', phone: '0171 1234567' });
      const [created] = await upsert(digits, [{ name: 'second', phone: '+49 171 1234567' }]);
      assert.equal(created?.status, 201);
    });

    test('two items with one number in different notations are rejected', async () => {
      const results = await upsert(german, [
        { name: 'a', phone: '0172 1234567' },
        { name: 'b', phone: '+49 172 1234567' },
        { name: 'c', phone: '0172 7654321' },
      ]);
      assert.deepEqual(
        results.map(({ status }) => status),
        [400, 400, 201],
      );
    });

    test('a number of several records is a conflict with a hint, and nothing is written', async () => {
      const ids = [
        await create(german, { name: 'national', phone: '0173 1234567' }),
        await create(german, { name: 'international', phone: '+49 173 1234567' }),
      ];
      const [conflict, created] = await upsert(german, [
        { name: 'changed', phone: '0049 173 1234567' },
        { name: 'new', phone: '0173 7654321' },
      ]);
      assert.deepEqual([conflict?.status, conflict?.code, created?.status], [409, 'duplicate', 201]);
      assert.match(String(conflict?.error), /Several records have the same phone in different notations/);
      assert.match(String(conflict?.hint), /Merge these records/);
      for (const id of ids) assert.doesNotMatch(String(await nameOf(id, german)), /changed/);
      const stopped = await send('POST /api/v1/callers/batch', german, {
        records: [{ name: 'changed', phone: '0173 1234567' }],
        match: ['phone'],
      });
      assert.equal(stopped.status, 400, stopped.text);
      assert.match(stopped.text, /Several records have the same phone/);
    });

    test('imports match every notation, and dry runs report conflicts', async () => {
      const id = await create(german, { name: 'first', phone: '0174 1234567' });
      const load = async (query: string, record: object) => {
        const { json, text } = await instance().call(`POST /api/v1/callers/import?match=phone${query}`, {
          key: german.key,
          body: JSON.stringify(record),
          headers: { 'content-type': 'application/x-ndjson' },
        });
        assert.ok(json.lines, text);
        return { counts: [json.created, json.updated, json.failed], lines: json.lines as Result[] };
      };
      const record = { name: 'imported', phone: '+49 174 1234567' };
      assert.deepEqual((await load('', record)).counts, [0, 1, 0]);
      assert.equal(await nameOf(id, german), 'imported');
      await create(german, { name: 'second', phone: '0174 1234567' });
      for (const query of ['', '&dry_run=true']) {
        const { counts, lines } = await load(query, record);
        assert.equal(counts[2], 1, query);
        assert.match(String(lines[0]?.error), /Several records have the same phone/, query);
      }
    });

    test('in combinations of unique fields, the other fields are compared as usual', async () => {
      const combination = { match: ['branch', 'line'] };
      const values = (branch: string, line: string) => ({ branch, line });
      const [first] = await upsert(german, [values('north', '030 1234567')], combination);
      const [second] = await upsert(german, [values('south', '+49 30 1234567')], combination);
      const [third] = await upsert(german, [values('north', '0049 30 1234567')], combination);
      assert.deepEqual([first?.status, second?.status, third], [201, 201, { status: 200, id: first?.id }]);
    });

    test('unique fields compare only the digits, with or without a country', async () => {
      await create(german, { phone: '0175 1234567' });
      const same = await send('POST /api/v1/callers', german, { phone: '0175/1234567' });
      assert.equal(same.status, 409, same.text);
      await create(german, { phone: '+49 175 1234567' });
    });

    test('when the country changes, match uses the new one and records stay as they are', async () => {
      const changing = await instance().organization('changing');
      const id = await create(changing, { name: 'first', phone: '0176 1234567' });
      await setCountry(changing, 'DE');
      assert.deepEqual(await upsert(changing, [{ phone: '+49 176 1234567' }]), [{ status: 200, id }]);
      await setCountry(changing, 'none');
      const [created] = await upsert(changing, [{ phone: '0176 1234567' }]);
      assert.equal(created?.status, 201, 'the record now contains the international notation');
    });
  },
  { sources: await sourcesWith(callers) },
);
