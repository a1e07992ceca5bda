// Fields whose values are calculated from other fields of the record (`computed`) or from other records (`rollup`).
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { clientSource, type Document } from '../../app/commands/client-command.ts';
import type { Change } from '../support/changes.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { quotes } from '../support/quotes.ts';
import { sourcesWith } from '../support/sources.ts';

const field = 'description: A field.';
const sources = await sourcesWith(
  {
    file: 'flats.yaml',
    text: `
singular: flat
description: A flat.
common: all
fields:
  name: { type: string, ${field} }
  price: { type: money, currency: EUR, nullable: true, ${field} }
  area: { type: number, nullable: true, ${field} }
  rooms: { type: integer, ${field} }
  sold_on: { type: date, nullable: true, ${field} }
  price_m2: { type: number, computed: price.amount / area, ${field} }
  price_sqft: { type: number, computed: price_m2 / 10.7639, ${field} }
  fee: { type: money, currency: EUR, computed: price.amount * 0.03, ${field} }
  double_rooms: { type: integer, computed: rooms * 2, ${field} }
  square: { type: number, computed: area * area * area * area, ${field} }
  is_large: { type: boolean, computed: area >= 100, ${field} }
  is_sold: { type: boolean, computed: sold_on != null, ${field} }
  cost: { type: number, nullable: true, group: finance, ${field} }
  margin: { type: number, computed: price.amount - cost, group: finance, ${field} }
filters:
  - { field: price_m2, operators: [eq, in, gte, lt, is_null] }
  - { field: fee, operators: [lte] }
  - double_rooms
  - is_large
scopes:
  expensive: price_m2 > 1000
checks:
  - { that: double_rooms <= 200, fields: [rooms], message: Too many rooms. }
sort: { by: id }
`,
  },
  {
    file: 'viewings.yaml',
    text: `
singular: viewing
description: A viewing.
common: all
fields:
  flat_id: { type: reference, to: flats, nullable: true, ${field} }
sort: { by: id }
filters: [flat_id]
`,
  },
  ...quotes,
);

const computed = [
  'price_m2',
  'price_sqft',
  'fee',
  'double_rooms',
  'square',
  'is_large',
  'is_sold',
  'margin',
] as const;
const rollups = [
  'total',
  'paid',
  'positions',
  'large_positions',
  'smallest',
  'average',
  'pieces',
  'last_due_on',
  'last_seen_at',
  'profit',
  'parts',
  'visits',
] as const;
const eur = (amount: number) => ({ amount, currency: 'EUR' });
const only = (record: Readonly<Record<string, unknown>>, names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, record[name]]));

onBothDrivers(
  'Derived values',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const call = (request: string, body?: unknown, options: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), {
        key: acme.key,
        ...(body !== undefined && { body }),
        ...options,
      });
    const succeeds = async (request: string, body?: unknown, options: Call = {}) => {
      const answer = await call(request, body, options);
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer;
    };
    const create = async (path: string, body: object): Promise<number> =>
      Number((await succeeds(`POST ${path}`, body)).json.id);
    const sql = (text: string) => instance().database.run({ name: '', text, values: [] });
    const data = async (request: string, options: Call = {}) =>
      (await succeeds(request, undefined, options)).json.data as Readonly<Record<string, unknown>>[];

    describe('computed', () => {
      const loft = { name: 'Loft', price: eur(300000), area: 120, rooms: 3, cost: 200000.5 };
      const values = {
        price_m2: 2500,
        price_sqft: 232.2578247661,
        fee: eur(9000),
        double_rooms: 6,
        square: 207360000,
        is_large: true,
        is_sold: false,
        margin: 99999.5,
      };
      const round = (record: Readonly<Record<string, unknown>>) => ({
        ...only(record, computed),
        price_sqft: Math.round(Number(record.price_sqft) * 1e10) / 1e10,
      });

      test('every response contains the values, and writes ignore them', async () => {
        const { json } = await succeeds('POST /flats', { ...loft, price_m2: 1, is_large: false });
        assert.deepEqual(round(json), values);
        const strict = { headers: { prefer: 'handling=strict' } };
        const rejected = await call('POST /flats', { ...loft, price_m2: 1 }, strict);
        assert.deepEqual(
          [rejected.status, rejected.json.fields],
          [400, [{ field: 'price_m2', message: 'price_m2 is read-only' }]],
        );
        const changed = await succeeds(`PATCH /flats/${json.id}`, { area: 150, sold_on: '2026-03-01' });
        assert.deepEqual(only(changed.json, ['price_m2', 'is_sold', 'is_large']), {
          price_m2: 2000,
          is_sold: true,
          is_large: true,
        });
        const { text } = await succeeds(`GET /flats/${json.id}`);
        assert.equal(text, changed.text);
        const [listed] = await data(`GET /flats?fields=price_m2,fee`);
        assert.deepEqual(listed, { id: json.id, price_m2: 2000, fee: eur(9000) });
        const viewing = await create('/viewings', { flat_id: json.id });
        const { json: expanded } = await succeeds(`GET /viewings/${viewing}?expand=flat_id`);
        assert.equal((expanded.expanded as { flat_id: { price_m2: number } }).flat_id.price_m2, 2000);
        const csv = await succeeds('GET /flats', undefined, { headers: { accept: 'text/csv' } });
        assert.match(csv.text, /price_m2,price_sqft,fee/);
        assert.match(csv.text, /,2000,185\.\d+,9000,6,/);
        const imported = await call('POST /flats/import', csv.text, {
          headers: { 'content-type': 'text/csv' },
        });
        assert.equal(imported.status, 200, imported.text);
        assert.ok((imported.json.ignored as string[]).includes('price_m2'), imported.text);
      });

      test('a missing value, a division by zero and a number out of range give null', async () => {
        const { json: empty } = await succeeds('POST /flats', { name: 'Empty' });
        assert.deepEqual(only(empty, computed), {
          price_m2: null,
          price_sqft: null,
          fee: null,
          double_rooms: 0,
          square: null,
          is_large: false,
          is_sold: false,
          margin: null,
        });
        const { json: zero } = await succeeds('POST /flats', { price: eur(1), area: 0 });
        assert.deepEqual([zero.price_m2, zero.price_sqft], [null, null]);
        const { text } = await succeeds('POST /flats', '{"price":{"amount":1,"currency":"EUR"},"area":3}');
        assert.match(text, /"price_m2":0\.3333333333333333,/);
        const { text: large } = await succeeds('POST /flats', '{"area":1e90}');
        assert.match(large, /"square":null/);
        const { text: trimmed } = await succeeds(
          'POST /flats',
          '{"price":{"amount":5.00,"currency":"EUR"},"area":2}',
        );
        assert.match(trimmed, /"price_m2":2\.5,/);
        // Integers out of range violate no rule of their type.
        const [[id]] = (await sql(
          `insert into flats (organization_id, name, rooms, created_at, updated_at) values (${acme.id}, '', -2000000000, now(), now()) returning id::text`,
        )) as [[string]];
        assert.equal((await succeeds(`GET /flats/${id}`)).json.double_rooms, null);
      });

      test('checks can read computed fields', async () => {
        const { status, json } = await call('POST /flats', { rooms: 101 });
        assert.deepEqual([status, json.fields], [400, [{ field: 'rooms', message: 'Too many rooms.' }]]);
      });

      test('lists are filtered and sorted by the values, also across pages', async () => {
        const own = await instance().organization('sorting');
        const options = { key: own.key };
        await sql(
          `insert into flats (organization_id, name, price, area, rooms, created_at, updated_at)
           select ${own.id}, 'f' || n, n * 10, case when n % 5 = 0 then null else 7 end, n % 3, now(), now() from generate_series(1, 60) n`,
        );
        const names = async (query: string) =>
          (await data(`GET /flats?${query}`, options)).map(({ name }) => name);
        assert.deepEqual(await names('price_m2[gte]=80&price_m2[lt]=83&sort=price_m2'), [
          'f56',
          'f57',
          'f58',
        ]);
        assert.deepEqual(await names('price_m2=30'), ['f21']);
        assert.deepEqual(await names('price_m2[in]=30&price_m2[in]=10'), ['f7', 'f21']);
        assert.equal((await names('price_m2[is_null]=true')).length, 12);
        assert.deepEqual(await names('fee[lte]=0.6'), ['f1', 'f2']);
        assert.deepEqual((await names('double_rooms=4')).length, 20);
        assert.deepEqual(await names('is_large=true'), []);
        for (const dir of ['asc', 'desc']) {
          const found: unknown[] = [];
          let next: string | undefined = `/api/v1/flats?sort=price_m2&dir=${dir}&fields=name`;
          while (next !== undefined) {
            const page = await instance().call(`GET ${next}`, options);
            assert.equal(page.status, 200, page.text);
            found.push(...(page.json.data as { name: string }[]).map(({ name }) => name));
            const [, link] = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '') ?? [];
            next =
              link === undefined
                ? undefined
                : new URL(link, 'http://localhost').toString().replace('http://localhost', '');
          }
          const numbers = Array.from({ length: 60 }, (_, index) => index + 1);
          const ordered = [...numbers.filter((n) => n % 5 > 0), ...numbers.filter((n) => n % 5 === 0)];
          const expected = dir === 'asc' ? ordered : ordered.toReversed();
          assert.deepEqual(
            found,
            expected.map((n) => `f${n}`),
          );
        }
      });

      test('the history contains the values at the time of the change', async () => {
        const id = await create('/flats', { name: 'Logged', price: eur(100), area: 10 });
        await succeeds(`PATCH /flats/${id}`, { area: 20 });
        const changes = (await data(`GET /flats/${id}/history`)) as unknown as Change[];
        const [latest] = changes;
        assert.deepEqual((latest?.before as { price_m2?: unknown } | null)?.price_m2, 10);
        assert.deepEqual((latest?.after as { price_m2?: unknown } | null)?.price_m2, 5);
        assert.ok(latest?.changed.includes('price_m2'), JSON.stringify(latest));
      });

      test('a scope can read them; field groups hide them like their inputs', async () => {
        const own = await instance().organization('scoped');
        const administrator = { key: own.key };
        for (const [name, amount] of [
          ['cheap', 1000],
          ['dear', 200000],
        ] as const)
          await succeeds('POST /flats', { name, price: eur(amount), area: 100, cost: 1 }, administrator);
        const limited = await limitedKey(instance(), own, ['flats:list:expensive', 'flats:read:expensive']);
        const [record, ...others] = await data('GET /flats', limited);
        assert.equal(others.length, 0);
        assert.deepEqual([record?.name, record?.price_m2], ['dear', 2000]);
        assert.ok(!('margin' in (record ?? {})) && !('cost' in (record ?? {})));
        const { json } = await succeeds(`GET /flats/${record?.id}/history`, undefined, limited);
        assert.ok(!JSON.stringify(json).includes('margin'));
        assert.equal((await call('GET /flats?sort=margin', undefined, limited)).status, 400);
        const finance = await limitedKey(instance(), own, ['flats:list', 'flats.finance:read']);
        assert.deepEqual(
          (await data('GET /flats?sort=margin', finance)).map(({ margin }) => margin),
          [999, 199999],
        );
      });
    });

    describe('rollup', () => {
      const none = {
        total: 0,
        paid: eur(0),
        positions: 0,
        large_positions: 0,
        smallest: null,
        average: null,
        pieces: 0,
        last_due_on: null,
        last_seen_at: null,
        profit: 0,
        parts: 0,
        visits: 0,
      };
      const line = (quote: number, unit: number, more: object = {}) =>
        create('/quote_lines', { quote_id: quote, unit_price: unit, ...more });

      test('values follow the children in every way of changing them', async () => {
        const { json, headers } = await succeeds('POST /quotes', { name: 'Roof', total: 7 });
        assert.deepEqual(only(json, rollups), none);
        const id = Number(json.id);
        const first = await line(id, 2.5, {
          quantity: 3,
          payment: eur(10.25),
          due_on: '2026-03-01',
          seen_at: '2026-03-01T09:30:00+01:00',
          profit: 4,
        });
        await line(id, 100, { payment: eur(0.75), due_on: '2026-04-01', seen_at: '2026-03-01T08:00:00Z' });
        await line(id, 1, { quantity: 7 });
        await create('/quotes', { parent_id: id });
        await create('/visits', { quote_id: id, kind: 'call' });
        await create('/visits', { quote_id: id, kind: 'mail' });
        const all = {
          total: 114.5,
          paid: eur(11),
          positions: 3,
          large_positions: 2,
          smallest: 7,
          average: 38.166666666666664,
          pieces: 11,
          last_due_on: '2026-04-01',
          last_seen_at: '2026-03-01T08:30:00Z',
          profit: 4,
          parts: 1,
          visits: 2,
        };
        const read = await succeeds(`GET /quotes/${id}`);
        assert.deepEqual(only(read.json, rollups), all);
        const listed = (await data('GET /quotes')).find((record) => record.id === id) ?? {};
        assert.deepEqual(only(listed, rollups), all);
        // The entity tag depends on the values.
        const [before, etag] = [headers.get('etag') ?? '', read.headers.get('etag') ?? ''];
        assert.notEqual(etag, before);
        const conditional = { headers: { 'if-none-match': etag } };
        assert.equal((await call(`GET /quotes/${id}`, undefined, conditional)).status, 304);
        const stale = await call(`PATCH /quotes/${id}`, { name: 'x' }, { headers: { 'if-match': before } });
        assert.equal(stale.status, 412);
        const patched = await succeeds(
          `PATCH /quotes/${id}`,
          { name: 'y' },
          { headers: { 'if-match': etag } },
        );
        assert.deepEqual(only(patched.json, rollups), all);
        // A child in the trash does not count until it is restored.
        await succeeds(`DELETE /quote_lines/${first}`);
        const total = async () => (await succeeds(`GET /quotes/${id}?fields=total`)).json.total;
        assert.equal(await total(), 107);
        await succeeds(`POST /quote_lines/${first}/restore`);
        assert.equal(await total(), 114.5);
        await succeeds(`PATCH /quote_lines/${first}`, { quote_id: null });
        assert.equal(await total(), 107);
        const csv = await succeeds('GET /quotes', undefined, { headers: { accept: 'text/csv' } });
        assert.match(csv.text, /,107,0\.75,2,1,7,53\.5,8,2026-04-01,/);
      });

      test('a write together with children returns their values', async () => {
        const { json, headers, text } = await succeeds('POST /quotes', {
          name: 'Nested',
          lines: [{ unit_price: 1 }, { unit_price: 2, quantity: 2 }],
        });
        assert.deepEqual([json.total, json.positions], [5, 2], text);
        const read = await succeeds(`GET /quotes/${json.id}`);
        assert.equal(read.headers.get('etag'), headers.get('etag'));
        const put = await succeeds(`PUT /quotes/${json.id}`, { name: 'Nested', lines: [{ unit_price: 7 }] });
        assert.deepEqual([put.json.total, put.json.positions], [7, 1]);
        const keyed = { headers: { 'idempotency-key': 'rollup' } };
        const body = { name: 'Keyed', lines: [{ unit_price: 3 }] };
        const once = await succeeds('POST /quotes', body, keyed);
        assert.equal(once.json.total, 3);
        assert.equal((await succeeds('POST /quotes', body, keyed)).text, once.text);
      });

      test('a record does not count among its own children', async () => {
        const id = await create('/quotes', { name: 'Own parent' });
        const { json } = await succeeds(`PATCH /quotes/${id}`, { parent_id: id });
        assert.equal(json.parts, 0);
        assert.equal((await succeeds(`GET /quotes/${id}`)).json.parts, 0);
      });

      test('the history omits them, and groups hide them', async () => {
        const own = await instance().organization('hidden');
        const options = { key: own.key };
        const { json } = await succeeds('POST /quotes', { name: 'a' }, options);
        await succeeds('POST /quote_lines', { quote_id: json.id, profit: 5, unit_price: 1 }, options);
        await succeeds('POST /visits', { quote_id: json.id, kind: 'mail' }, options);
        const history = await succeeds(`GET /quotes/${json.id}/history`, undefined, options);
        assert.ok(!history.text.includes('"total"'), history.text);
        const limited = await limitedKey(instance(), own, [
          'quotes:list',
          'quotes:read',
          'visits:list:calls',
        ]);
        const [record = {}] = await data('GET /quotes', limited);
        assert.ok(!('profit' in record));
        // The rollup includes records outside of the caller's scopes.
        assert.deepEqual([record.total, record.visits], [1, 1]);
        const before = (await succeeds(`GET /quotes/${json.id}`, undefined, limited)).headers.get('etag');
        await sql(`update quote_lines set profit = 6 where organization_id = ${own.id}`);
        const after = (await succeeds(`GET /quotes/${json.id}`, undefined, limited)).headers.get('etag');
        assert.equal(after, before);
        assert.equal((await call('GET /quotes?fields=profit', undefined, limited)).status, 400);
      });

      test('lists cannot be sorted by them', async () => {
        assert.equal((await call('GET /quotes?sort=total')).status, 400);
      });
    });

    describe('descriptions and pages', () => {
      test('OpenAPI and the client describe them as read-only', async () => {
        const { json } = await instance().call('GET /docs/openapi.json');
        const document = json as unknown as Document;
        const { Flat, FlatInput, Quote } = document.components.schemas;
        assert.deepEqual(Flat?.properties?.price_m2, {
          type: ['number', 'null'],
          description: 'A field. Calculated: `price.amount / area`.',
          readOnly: true,
        });
        assert.equal(Flat?.properties?.is_large?.type, 'boolean');
        assert.equal(FlatInput?.properties?.price_m2, undefined);
        assert.deepEqual(Quote?.properties?.total, {
          type: 'number',
          description:
            'A field. Sum of `amount` of all `quote_lines` that refer to the record through `quote_id`.',
          readOnly: true,
        });
        const source = clientSource(document);
        assert.match(source, /readonly price_m2: string \| null;/);
        assert.match(source, /readonly positions: bigint;/);
      });

      test('pages show them and forms do not ask for them', async () => {
        const browser = await signIn(instance(), administratorOf(acme));
        const path = `/setup/o/${acme.slug}/data/flats`;
        const { text: form } = await browser.get(`${path}/new`);
        assert.match(form, /id="in-area"/);
        assert.doesNotMatch(form, /in-price_m2/);
        const id = await create('/flats', { name: 'Page', price: eur(123450), area: 100 });
        const { text: page } = await browser.get(`${path}/${id}`);
        assert.match(page, /1,234\.5/);
        const edit = `${path}/${id}/edit`;
        await browser.submit(edit, edit, { name: 'Page', price: '500', area: '100', rooms: '1' });
        assert.equal((await succeeds(`GET /flats/${id}`)).json.price_m2, 5);
        const quote = await create('/quotes', { name: 'Page' });
        await create('/quote_lines', { quote_id: quote, unit_price: 98765.5 });
        const { text: quotePage } = await browser.get(`/setup/o/${acme.slug}/data/quotes/${quote}`);
        assert.match(quotePage, /98,765\.5/);
      });
    });
  },
  { sources },
);
