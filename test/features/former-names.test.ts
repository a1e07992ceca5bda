// Renamed fields and resources: callers can still use the old names while `alias: true` is set, and receive
// the end date.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const until = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
const deals = {
  file: 'deals.yaml',
  text: `
singular: deal
renamed_from: bargains
${until.replaceAll(', ', '\n')}
common: all
fields:
  title: { type: string, renamed_from: label, unique: true, ${until.replace('2026-11', '2026-12')} }
  worth: { type: number, renamed_from: price, ${until.replace('2027-06-30', '2027-05-31')} }
  due: { type: timestamp, nullable: true, renamed_from: deadline, ${until} }
  buyer_id: { type: reference, to: accounts, nullable: true, renamed_from: customer_id, ${until} }
  buyer_name: { type: joined, through: buyer_id, show: [name], renamed_from: customer_name, ${until} }
  changed_at: { type: timestamp, read_only: true, set: updated, renamed_from: modified_at, ${until} }
  separator: { type: string, renamed_from: delimiter, ${until} }
  fax: { type: string, retired: true }
  seen: { type: date, required: true, retired: true }
sort: { by: title }
filters:
  - title
  - { field: worth, operators: [eq, gte] }
  - { field: buyer_id, operators: [eq] }
search: [title]
`,
};

onBothDrivers(
  'former names',
  (instance) => {
    let acme: Organization;
    let account: number;
    const call = (request: string, body?: unknown, headers = {}) =>
      instance().call(request.replace(' ', ' /api/v1/'), { key: acme.key, body, headers });
    const deadline = '2026-12-01T10:00:00+02:00';

    before(async () => {
      acme = await instance().organization('acme');
      account = Number((await call('POST accounts', { name: 'Buyer' })).json.id);
    });

    test('records return each value under both names and accept it under either', async () => {
      const { json, text } = await call('POST deals', {
        label: 'first',
        price: 12.5,
        deadline,
        customer_id: account,
        fax: 'ignored',
      });
      const both = { label: 'first', title: 'first', price: 12.5, worth: 12.5, deadline, due: deadline };
      const links = { buyer_id: account, customer_id: account, buyer_name: 'Buyer', customer_name: 'Buyer' };
      for (const [name, value] of Object.entries({ ...both, ...links }))
        assert.equal(json[name], value, name);
      assert.ok(!('fax' in json) && !('seen' in json), text);

      const changed = await call(`PATCH deals/${json.id}`, { price: 7 });
      assert.deepEqual([changed.json.worth, changed.json.price], [7, 7]);
      assert.equal(changed.json.changed_at, changed.json.updated_at);
      assert.equal(changed.json.modified_at, changed.json.changed_at);
      const replaced = await call(`PUT deals/${json.id}`, { title: 'new', label: 'old', price: 8 });
      assert.deepEqual(
        [replaced.json.title, replaced.json.worth],
        ['new', 8],
        'the new name takes precedence',
      );
    });

    test('filters, order, fields, expand and match accept the old names', async () => {
      const batch = await call('POST deals/batch', {
        records: [
          { label: 'x', price: 1, customer_id: account },
          { label: 'y', price: 2 },
        ],
        match: ['label'],
      });
      assert.equal(batch.status, 200, batch.text);
      const list = async (query: string) => {
        const { status, json, text } = await call(`GET deals?${query}`);
        assert.equal(status, 200, text);
        return json.data as Record<string, unknown>[];
      };
      const titles = async (query: string) => (await list(query)).map(({ title }) => title);
      assert.deepEqual(await titles('label=x'), ['x']);
      assert.deepEqual(await titles('price[gte]=1&label=x&title=y&sort=price'), ['x', 'y']);
      assert.deepEqual(
        await titles('sort=price&dir=desc&price[gte]=1'),
        await titles('sort=worth&dir=desc&worth[gte]=1'),
      );
      assert.deepEqual(await titles('sort=-price&label=x&title=y'), ['y', 'x']);
      assert.deepEqual(await titles('sort=customer_id,-price&label=x&title=y'), ['x', 'y']);
      assert.deepEqual(await titles('sort=-label&label=x&title=y'), ['y', 'x']);
      assert.deepEqual(await list('fields=price&label=x'), [
        { id: (await list('label=x'))[0]?.id, price: 1 },
      ]);
      const [expanded] = await list(`customer_id=${account}&expand=customer_id&label=x`);
      assert.match(JSON.stringify(expanded?.expanded), new RegExp(`^{"buyer_id":{"id":${account},`));
      const strict = await call('GET deals?label=x', undefined, { prefer: 'handling=strict' });
      assert.equal(strict.status, 200, strict.text);
      const response = await call('POST deals', { price: 'much' });
      assert.match(response.text, /worth must be a number/);
    });

    test('imports and exports use both names', async () => {
      const csv = (body: string, query = '') =>
        call(`POST deals/import${query}`, body, { 'content-type': 'text/csv' });
      assert.equal((await csv('label,price\nimported,3\n')).json.created, 1);
      assert.equal((await csv('label,price\nimported,4\n', '?match=label')).json.updated, 1);
      const semicolons = await csv('label;price\nimported;6\n', '?match=label&delimiter=semicolon');
      assert.equal(semicolons.json.updated, 1, 'a former name can be the name of a parameter');
      const lines = '{"label":"imported","price":5}\n';
      const ndjson = { 'content-type': 'application/x-ndjson' };
      assert.equal((await call('POST deals/import?match=label', lines, ndjson)).json.updated, 1);
      const exported = await call('GET deals?label=imported', undefined, { accept: 'text/csv' });
      assert.match(exported.text.split('\r\n')[0] ?? '', /title,worth,.*label,price/);
      assert.equal((await csv(exported.text, '?match=title')).json.updated, 1, 'both names are included');
    });

    test('every response of the resource contains the oldest deprecation and the earliest end date', async () => {
      const answers = [
        await call('GET deals'),
        await call('GET deals/1000'),
        await call('POST deals', 'none'),
        await call('GET bargains'),
        await call('POST deals/import', 'label\nnew', { 'content-type': 'text/csv' }),
      ];
      for (const { headers } of answers) {
        assert.equal(headers.get('deprecation'), '@1795305600');
        assert.equal(headers.get('sunset'), 'Mon, 31 May 2027 00:00:00 GMT');
      }
      assert.equal((await call('GET accounts')).headers.get('deprecation'), null);
    });

    test('the old path serves the same records and checks the grants of the new name', async () => {
      const creation = await call('POST bargains', { title: 'by the old path' });
      assert.deepEqual(
        [creation.status, creation.headers.get('location')],
        [201, `/api/v1/bargains/${creation.json.id}`],
      );
      const response = await call(`GET deals/${creation.json.id}`);
      assert.equal(response.json.title, 'by the old path');
      const { keyWith } = acme;
      const key = await keyWith([{ object: 'deals', actions: ['read'] }]);
      assert.equal((await instance().call(`GET /api/v1/bargains/${creation.json.id}`, { key })).status, 200);
      assert.equal((await instance().call('GET /api/v1/bargains', { key })).status, 403);
      assert.equal((await call('DELETE bargains')).status, 405);
      const imported = await call('POST bargains/import', 'label\nby import\n', {
        'content-type': 'text/csv',
      });
      assert.deepEqual([imported.status, imported.json.created], [200, 1], imported.text);
    });

    test('the API description marks the old names as deprecated', async () => {
      const document = (await instance().call('GET /docs/openapi.json')).json as unknown as Document;
      const { paths, components } = document;
      const { Deal, DealInput, DealPatch } = components.schemas;
      assert.equal(Deal?.properties.label?.deprecated, true);
      assert.equal(DealInput?.properties.price?.deprecated, true);
      assert.equal(DealPatch?.properties.price?.deprecated, true);
      assert.equal(Deal?.properties.fax, undefined);
      assert.equal(components.parameters['deals.price.gte']?.deprecated, true);
      assert.equal(paths['/api/v1/bargains/{id}']?.get?.deprecated, true);
      assert.equal(paths['/api/v1/deals/{id}']?.get?.deprecated, undefined);
    });

    test('the explorer shows the operations on the former path last', async () => {
      const { text } = await instance().call('GET /docs/deals');
      const operations = text
        .split('<details class="operation"')
        .slice(1)
        .map((html) => [
          /<code>\/api\/v1\/(\w+)/.exec(html)?.[1],
          /<summary>.*>Deprecated<.*<\/summary>/.test(html),
        ]);
      const current = operations.findIndex(([name]) => name === 'bargains');
      assert.ok(current > 5 && operations.length === 2 * current, `${current} of ${operations.length}`);
      assert.deepEqual(
        operations,
        operations.map((_, index) => (index < current ? ['deals', false] : ['bargains', true])),
      );
    });
  },
  { sources: await sourcesWith(deals) },
);

interface Marked {
  readonly deprecated?: boolean;
}
interface Document {
  readonly paths: Record<string, Record<string, Marked>>;
  readonly components: {
    readonly schemas: Record<string, { readonly properties: Record<string, Marked> }>;
    readonly parameters: Record<string, Marked>;
  };
}
