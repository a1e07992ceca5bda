// Fields of type `list`, `money` and `json`: values that consist of several parts.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { clientSource, type Document } from '../../app/commands/client-command.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, formsOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { logIn, makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

const lofts = {
  file: 'lofts.yaml',
  text: `
singular: loft
common: all
fields:
  name: { type: string }
  tags: { type: list, max_items: 3 }
  rooms: { type: list, of: integer }
  ratios: { type: list, of: number }
  kinds: { type: list, enum: [sale, rent], closed: true }
  price: { type: money, currency: EUR, nullable: true, min: 0, max: 1000000.5 }
  deposit: { type: money, currency: any, nullable: true }
  details: { type: json, nullable: true }
  plan:
    type: json
    nullable: true
    schema:
      type: object
      required: [floors]
      additionalProperties: false
      properties: { floors: { type: array, items: { type: integer } }, note: { enum: [a, b] } }
  tree:
    type: json
    nullable: true
    schema:
      $ref: "#/$defs/node"
      $defs: { node: { type: object, properties: { "a/b~c": { type: string }, children: { type: array, items: { $ref: "#/$defs/node" } } } } }
  limits:
    type: json
    nullable: true
    schema: { type: object, unevaluatedProperties: false, properties: { size: { type: [integer, string] }, none: { type: "null" }, count: { type: integer, maximum: 5 } } }
  fee: { type: money, currency: any, default: { amount: 12.5, currency: EUR } }
  options: { type: json, default: { rooms: [1, 2], note: "it's Ann's \\"new\\"" } }
  bonus: { type: money, currency: any, nullable: true, group: finance }
filters:
  - { field: bonus.currency, operators: [eq] }
  - { field: tags, operators: [eq, ne, any, all] }
  - { field: rooms, operators: [any, all] }
  - { field: ratios, operators: [any] }
  - kinds
  - { field: price, operators: [eq, ne, gt, gte, lt, lte, in, is_null] }
  - { field: deposit, operators: [gte] }
  - { field: deposit.currency, operators: [eq, in, ne, is_null] }
  - fee.currency
aggregates: { group_by: [bonus.currency] }
scopes:
  cheap: price.amount < 100
checks:
  - { that: deposit.amount <= price.amount, fields: [deposit], message: The deposit exceeds the price. }
`,
};

onBothDrivers(
  'structured values',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), {
        key: acme.key,
        ...(body !== undefined && { body }),
        ...call,
      });
    const run = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
    const create = async (body: unknown) => {
      const { status, json, text } = await send('POST /lofts', body);
      assert.equal(status, 201, text);
      return { id: Number(json.id), json, text };
    };
    const namesWith = async (query: string) => {
      const { status, json, text } = await send(`GET /lofts?${query}`);
      assert.equal(status, 200, text);
      return (json.data as { name: string }[]).map(({ name }) => name);
    };
    const money = (amount: number, currency = 'EUR') => ({ amount, currency });

    describe('validation', () => {
      const rejected: readonly (readonly [values: object, field: string, message: string])[] = [
        [{ tags: 'a' }, 'tags', 'tags must be a list of strings of at most 500 characters'],
        [{ tags: ['a', 7] }, 'tags[1]', 'tags[1] must be a string of at most 500 characters'],
        [{ tags: ['x'.repeat(501)] }, 'tags[0]', 'tags[0] must be a string of at most 500 characters'],
        [{ tags: ['a', 'b', 'c', 'd'] }, 'tags', 'tags must contain at most 3 values'],
        [{ rooms: [2147483648] }, 'rooms[0]', 'rooms[0] must be an integer from -2147483648 to 2147483647'],
        [{ ratios: [null] }, 'ratios[0]', 'ratios[0] must be a number'],
        [{ rooms: Array.from({ length: 101 }, () => 1) }, 'rooms', 'rooms must contain at most 100 values'],
        [{ kinds: ['sale', 'lease'] }, 'kinds', 'kinds must contain only sale, rent'],
        [{ price: 5 }, 'price', 'price must be an object such as {"amount":12.5,"currency":"EUR"}'],
        [
          { price: money(5, 'USD') },
          'price',
          'price must be an object such as {"amount":12.5,"currency":"EUR"}',
        ],
        [{ price: money(-1) }, 'price', 'price must be at least 0'],
        [{ price: money(1000001) }, 'price', 'price must be at most 1000000.5'],
        [
          { price: { amount: JSON.rawJSON('1000000.50000000000000000001'), currency: 'EUR' } },
          'price',
          'price must be at most 1000000.5',
        ],
        [
          { deposit: money(5, 'eur') },
          'deposit',
          'deposit must be an object such as {"amount":12.5,"currency":"EUR"} with the ISO 4217 code of a currency',
        ],
        [{ price: money(5), deposit: money(6) }, 'deposit', 'The deposit exceeds the price.'],
        [{ details: 'x' }, 'details', 'details must be a JSON object or array of at most 64 KiB'],
        [
          { details: { text: 'x'.repeat(65_536) } },
          'details',
          'details must be a JSON object or array of at most 64 KiB',
        ],
        [
          { details: { 'a\0': 1 } },
          'details',
          'details must not contain U+0000, lone surrogates or numbers with more than 100 digits',
        ],
        [
          // More bytes than characters.
          { details: { text: 'ü'.repeat(32_768) } },
          'details',
          'details must be a JSON object or array of at most 64 KiB',
        ],
        ...[{ a: ['\ud800'] }, { a: { b: JSON.rawJSON('1'.repeat(101)) } }].map(
          (details) =>
            [
              { details },
              'details',
              'details must not contain U+0000, lone surrogates or numbers with more than 100 digits',
            ] as const,
        ),
        [{ plan: {} }, 'plan', 'plan must contain "floors"'],
        [{ plan: { floors: [1, 'b'] } }, 'plan', 'plan.floors[1] must be an integer'],
        [{ plan: { floors: [], other: 1 } }, 'plan', 'plan must not contain "other"'],
        [{ plan: { floors: [], ['x'.repeat(61)]: 1 } }, 'plan', `plan must not contain "${'x'.repeat(60)}"`],
        [{ plan: { floors: [], note: 'c' } }, 'plan', 'plan.note must be one of "a", "b"'],
        [{ tree: { children: [{ children: 5 }] } }, 'tree', 'tree.children[0].children must be a list'],
        [{ tree: { 'a/b~c': 1 } }, 'tree', 'tree.a/b~c must be a string'],
        [{ limits: { other: 1 } }, 'limits', 'limits must not contain "other"'],
        [{ limits: { size: true } }, 'limits', 'limits.size must be integer or string'],
        [{ limits: { none: 0 } }, 'limits', 'limits.none must be null'],
        [{ limits: { count: 6 } }, 'limits', 'limits.count must be <= 5'],
      ];
      for (const [values, field, message] of rejected)
        test(`${JSON.stringify(values).slice(0, 60)}: ${message.slice(0, 60)}`, async () => {
          const { status, json } = await send('POST /lofts', values);
          assert.deepEqual([status, json.fields], [400, [{ field, message }]]);
        });

      test('accepts lists and amounts at the limits', async () => {
        const values = {
          tags: ['😀'.repeat(500), '', 'c'],
          rooms: Array.from({ length: 100 }, () => -2147483648),
          price: { amount: JSON.rawJSON('1000000.50000000000000000000'), currency: 'EUR' },
        };
        const { json } = await create(values);
        assert.deepEqual(
          [json.tags, json.rooms, json.price],
          [values.tags, values.rooms, money(1_000_000.5)],
        );
      });

      test('accepts documents of 64 KiB, and numbers of any length that a schema allows', async () => {
        const details = { text: 'x'.repeat(65_536 - '{"text":""}'.length) };
        assert.deepEqual((await create({ details })).json.details, details);
        const { text } = await create({ plan: { floors: [JSON.rawJSON('12345678901234567890')] } });
        assert.match(text, /"plan":\{"floors": \[12345678901234567890\]\}/);
      });

      test('hand-written SQL cannot violate the rules', async () => {
        await create({ price: money(1), deposit: money(1) });
        for (const assignment of [
          "tags = '{a,b,c,d}'",
          "kinds = '{lease}'",
          'price = -1',
          `"deposit_Currency" = null`,
          `"deposit_Currency" = 'euro'`,
          'deposit = null',
          'deposit = 2',
        ])
          await assert.rejects(run(`update lofts set ${assignment} where price is not null`), /lofts_\w+/);
      });
    });

    test('values are exact, also after a PUT, in batches and in the history', async () => {
      const body =
        '{"tags":["b","a, \\"q\\" \\\\ {x} \\\\","b"],"rooms":[3,-2147483648],"ratios":[0.1,12345678901234567890.25],"kinds":["rent"],"price":{"amount":12345.678901234567890123,"currency":"EUR"},"deposit":{"amount":-0.5,"currency":"JPY"},"details":{"n":12345678901234567890.25,"a":[true,null,"ü\\n"]}}';
      const { id, text } = await create(body);
      for (const part of [
        '"tags":["b","a, \\"q\\" \\\\ {x} \\\\","b"]',
        '"rooms":[3,-2147483648]',
        '"ratios":[0.1,12345678901234567890.25]',
        '"price":{"amount":12345.678901234567890123,"currency":"EUR"}',
        '"deposit":{"amount":-0.5,"currency":"JPY"}',
        '12345678901234567890.25',
        '[true, null, "ü\\n"]',
      ])
        assert.ok(text.includes(part), `${part} in ${text}`);
      const put = await send(`PUT /lofts/${id}`, text);
      const valuesOf = (record: string) => /"tags".*"plan"/.exec(record)?.[0];
      assert.equal(valuesOf(put.text), valuesOf(text));
      const batch = await send('POST /lofts/batch', `{"records":[${body}]}`);
      const [result] = batch.json.results as { id: number }[];
      assert.equal(valuesOf((await send(`GET /lofts/${result?.id}`)).text), valuesOf(text));
      const { text: history } = await send(`GET /lofts/${id}/history`);
      assert.ok(history.includes('"deposit":{"amount":-0.5,"currency":"JPY"}'), history);
      const { text: bare } = await create({ tags: null });
      for (const part of ['"tags":[]', '"price":null', '"deposit":null', '"details":null'])
        assert.ok(bare.includes(part), bare);
      const { json } = await send(`PATCH /lofts/${id}`, { deposit: null, tags: ['z'] });
      assert.deepEqual([json.deposit, json.tags, json.rooms], [null, ['z'], [3, -2147483648]]);
    });

    describe('filters, order and exchange', () => {
      before(async () => {
        acme = await instance().organization('lists');
        await create({
          name: 'A',
          tags: ['red', 'sea view'],
          rooms: [1, 2],
          price: money(9),
          kinds: ['rent'],
        });
        await create({ name: 'B', tags: ['red'], rooms: [2], ratios: [0.5], price: money(10.5) });
        await create({ name: 'C', tags: ['a;b', ''], deposit: money(7, 'USD'), kinds: ['sale', 'rent'] });
      });

      for (const [query, names] of [
        ['tags=red', ['A', 'B']],
        ['tags=sea%20view', ['A']],
        ['tags[ne]=red', ['C']],
        ['tags[any]=sea%20view&tags[any]=a;b', ['A', 'C']],
        ['tags[all]=red&tags[all]=sea%20view', ['A']],
        ['rooms[all]=2', ['A', 'B']],
        ['rooms[all]=2&rooms[all]=1', ['A']],
        ['ratios[any]=0.50', ['B']],
        ['kinds=rent', ['A', 'C']],
        ['price=10.50', ['B']],
        ['price[gte]=9&price[lt]=10', ['A']],
        ['price[in]=9&price[in]=10.5', ['A', 'B']],
        ['price[is_null]=true', ['C']],
        ['deposit[gte]=7', ['C']],
        ['deposit.currency=USD', ['C']],
        ['deposit.currency=usd&deposit[gte]=7', ['C']],
        ['deposit.currency=EUR', []],
        ['deposit.currency[in]=USD&deposit.currency[in]=EUR', ['C']],
        ['deposit.currency[ne]=USD', ['A', 'B']],
        ['deposit.currency[is_null]=true', ['A', 'B']],
        ['fee.currency=EUR', ['A', 'B', 'C']],
      ] as const)
        test(`?${query} finds ${names.join(' and ')}`, async () => {
          assert.deepEqual(await namesWith(`${query}&sort=name`), names);
        });

      test('lists are sorted by amount, also across pages', async () => {
        assert.deepEqual(await namesWith('sort=price'), ['A', 'B', 'C']);
        assert.deepEqual(await namesWith('sort=price&dir=desc'), ['C', 'B', 'A']);
        const many = await instance().organization('many');
        await run(
          `insert into lofts (organization_id, name, price, created_at, updated_at) select o.id, n::text, n / 4.0, now(), now() from crm_organizations o, generate_series(1, 25) n where o.slug = 'many'`,
        );
        const first = await send('GET /lofts?sort=price', undefined, { key: many.key });
        const next = /<([^>]+)>; rel="next"/.exec(String(first.headers.get('link')))?.[1] ?? '';
        const second = await instance().call(
          `GET ${new URL(next, 'http://x').pathname}${new URL(next, 'http://x').search}`,
          {
            key: many.key,
          },
        );
        assert.deepEqual(
          (second.json.data as { name: string }[]).map(({ name }) => name),
          ['21', '22', '23', '24', '25'],
        );
      });

      test('a scope reads amounts, also in the history', async () => {
        const grants = [{ object: 'lofts', actions: ['list:cheap', 'read:cheap'] as never }];
        const person = await makePerson(instance(), [{ organization: acme, grants }]);
        const headers = (await logIn(instance(), person)).byToken;
        const get = (path: string) => instance().call(`GET /api/v1/lofts${path}`, { headers });
        const { id } = await create({ name: 'E', price: money(99.5) });
        await send(`PATCH /lofts/${id}`, { price: money(20) });
        const found = await get('?price[gte]=15');
        assert.deepEqual(
          (found.json.data as { name: string }[]).map(({ name }) => name),
          ['E'],
        );
        const history = await get(`/${id}/history`);
        assert.equal((history.json.data as unknown[]).length, 2, history.text);
        await send(`PATCH /lofts/${id}`, { price: money(100) });
        assert.equal((await get(`/${id}`)).status, 404);
        await send(`DELETE /lofts/${id}`);
      });

      test('invalid parameters are rejected', async () => {
        for (const [query, field, expected] of [
          ['price[gte]=ten', 'price[gte]', 'a number'],
          ['fee.currency=euro', 'fee.currency', 'an ISO 4217 currency code, for example EUR'],
          ['rooms[any]=1.5', 'rooms[any]', 'an integer from -2147483648 to 2147483647'],
          ['sort=tags', 'sort', 'one of id'],
          ['sort=details', 'sort', 'one of id'],
        ] as const) {
          const { status, json } = await send(`GET /lofts?${query}`);
          assert.equal(status, 400);
          assert.ok(String(json.error).startsWith(`${field} must be ${expected}`), String(json.error));
        }
      });

      test('an exported file can be imported', async () => {
        await create({
          name: 'D',
          tags: ['[VIP]', 'x'],
          details: { a: [1, 'x, "y"'] },
          plan: { floors: [1] },
          ratios: [1.5, 2],
        });
        await create({ name: 'E', tags: [' padded ', 'two\nlines'] });
        await create({ name: 'F', tags: ['two', 'lines '] });
        const { text } = await send('GET /lofts?sort=name', undefined, { headers: { accept: 'text/csv' } });
        const bracketed = '"[""[VIP]"",""x""]"';
        const spaced = ['"["" padded "",""two\\nlines""]"', '"[""two"",""lines ""]"'];
        const parts = [
          'red;sea view',
          '"[""a;b"",""""]"',
          bracketed,
          ...spaced,
          '1;2',
          ',9,',
          '7 USD',
          '1.5;2',
        ];
        for (const part of parts) assert.ok(text.includes(part), `${part} in ${text}`);
        const copy = await instance().organization('copy');
        const imported = await send('POST /lofts/import', undefined, {
          key: copy.key,
          body: text,
          headers: { 'content-type': 'text/csv' },
        });
        assert.deepEqual([imported.json.created, imported.json.failed], [6, 0], imported.text);
        const again = await send('GET /lofts?sort=name', undefined, {
          key: copy.key,
          headers: { accept: 'text/csv' },
        });
        const values = (csv: string) => csv.split('\r\n').map((line) => line.split('Z,').at(-1));
        assert.deepEqual(values(again.text).length, values(text).length);
        for (const part of [
          'red;sea view',
          '"[""a;b"",""""]"',
          bracketed,
          ...spaced,
          ',9,',
          '7 USD',
          '1.5;2',
          '""x, \\""y\\""""',
        ])
          assert.ok(again.text.includes(part), `${part} in ${again.text}`);
      });
    });

    test('the currency of an amount belongs to the field group of the amount', async () => {
      const organization = await instance().organization('grouped');
      const { key } = await limitedKey(instance(), organization, ['lofts:*']);
      for (const [name, currency] of [
        ['A', 'USD'],
        ['B', 'EUR'],
      ] as const)
        await send('POST /lofts', { name, bonus: money(1, currency) }, { key: organization.key });
      const namesFor = async (caller: string) => {
        const { json } = await send('GET /lofts?bonus.currency=USD&sort=name', undefined, { key: caller });
        return (json.data as { name: string }[]).map(({ name }) => name);
      };
      assert.deepEqual(await namesFor(organization.key), ['A']);
      assert.deepEqual(await namesFor(key), ['A', 'B'], 'the parameter is unknown and ignored');
      const grouped = (caller: string) =>
        send('GET /lofts/aggregate?group_by=bonus.currency', undefined, { key: caller });
      assert.match((await grouped(organization.key)).text, /"bonus\.currency":"USD"/);
      assert.equal((await grouped(key)).status, 400);
    });

    test('forms edit the values, and pages show them', async () => {
      const browser = await signIn(instance(), administratorOf(acme));
      const path = `/setup/o/${acme.slug}/data/lofts`;
      const { text: form } = await browser.get(`${path}/new`);
      assert.match(form, /<textarea[^>]* id="in-tags"/);
      assert.match(form, /type="checkbox"[^>]*value="rent"/);
      assert.equal((await browser.get(`${path}/board?by=kinds`)).status, 404, 'a card is in one column');
      const { id } = await create({
        name: 'Form',
        tags: ['x', 'y'],
        price: money(1234.5),
        details: { deep: { value: 1 } },
      });
      const { text: page } = await browser.get(`${path}/${id}`);
      assert.match(page, /1,234\.5 EUR/);
      assert.match(page, /<pre[^>]*>x\ny<\/pre>/);
      assert.match(page, /&quot;value&quot;: 1|"value": 1/);
      const edit = `${path}/${id}/edit`;
      await browser.submit(edit, edit, {
        name: 'Form',
        tags: 'x\r\nnew one',
        price: ' 0020 ',
        deposit: '-005.50 USD',
        details: '{"b":2}',
        kinds: 'rent',
      });
      const { json } = await send(`GET /lofts/${id}`);
      assert.deepEqual(
        [json.tags, json.price, json.deposit, json.details, json.kinds],
        [['x', 'new one'], money(20), money(-5.5, 'USD'), { b: 2 }, ['rent']],
      );
    });

    test('a form that is submitted unchanged keeps every value', async () => {
      const browser = await signIn(instance(), administratorOf(acme));
      for (const tags of [['two\nlines', 'x'], [' padded '], ['[x]'], ['a', ''], ['a;b', '"c"']]) {
        const { id, text } = await create({
          name: 'Unchanged',
          tags,
          rooms: [1, -2],
          ratios: [0.5, JSON.rawJSON('12345678901234567890.25')],
          price: { amount: JSON.rawJSON('12345.678901234567890123'), currency: 'EUR' },
          deposit: { amount: JSON.rawJSON('-0.12345678901234567890123'), currency: 'JPY' },
          details: { n: [JSON.rawJSON('12345678901234567890.25')], text: 'a\n  b' },
        });
        const edit = `/setup/o/${acme.slug}/data/lofts/${id}/edit`;
        const page = await browser.get(edit);
        const form = formsOf(page).find(({ action }) => action === edit);
        // Browsers send line breaks as CR LF.
        const areas = Object.fromEntries(
          [...page.text.matchAll(/<textarea[^>]* name="(\w+)"[^>]*>([^<]*)<\/textarea>/g)].map(
            ([, name = '', value = '']) => [name, readable(value).replaceAll('\n', '\r\n')],
          ),
        );
        const sent = await browser.post(edit, { ...form?.values, ...areas, name: 'Changed' });
        assert.equal(sent.status, 303, problemOf(sent));
        const changed = await send(`GET /lofts/${id}`);
        assert.equal(changed.json.name, 'Changed');
        const valuesOf = (record: string) => /"tags".*/.exec(record)?.[0];
        assert.equal(valuesOf(changed.text), valuesOf(text));
      }
    });

    test('absent values get their defaults, also in the database and in forms', async () => {
      const defaults = { fee: money(12.5), options: { note: 'it\'s Ann\'s "new"', rooms: [1, 2] } };
      const valuesOf = ({ fee, options }: Readonly<Record<string, unknown>>) => ({ fee, options });
      const { id, json } = await create({ name: 'Default', fee: null });
      assert.deepEqual(valuesOf(json), defaults);
      const changed = await send(`PUT /lofts/${id}`, { name: 'Default', fee: money(1, 'USD'), options: [] });
      assert.deepEqual(valuesOf(changed.json), { fee: money(1, 'USD'), options: [] });
      assert.deepEqual(
        valuesOf((await send(`PATCH /lofts/${id}`, { fee: null, options: null })).json),
        defaults,
      );
      await run(
        `insert into lofts (organization_id, name, created_at, updated_at) select organization_id, 'By hand', now(), now() from lofts where id = ${id}`,
      );
      const { json: page } = await send('GET /lofts?q=&sort=id&dir=desc&per_page=1');
      assert.deepEqual(valuesOf((page.data as Record<string, unknown>[])[0] ?? {}), defaults);
      const browser = await signIn(instance(), administratorOf(acme));
      const { text } = await browser.get(`/setup/o/${acme.slug}/data/lofts/new`);
      assert.match(text, /value="12.5 EUR"/);
      const { json: description } = await instance().call('GET /docs/openapi.json');
      const { LoftInput } = (
        description as {
          components: { schemas: Record<string, { properties: Record<string, Record<string, unknown>> }> };
        }
      ).components.schemas;
      assert.equal(LoftInput?.properties.fee?.description, 'Default: `{"amount":12.5,"currency":"EUR"}`.');
    });

    test('pages and the history show documents that together exceed the limits of a request', async () => {
      const large = await instance().organization('large');
      const browser = await signIn(instance(), administratorOf(large));
      const call = { key: large.key };
      const values = Array.from({ length: 30_000 }, () => 1);
      const nested: unknown = JSON.parse('['.repeat(199) + ']'.repeat(199));
      const writes: readonly (readonly [name: string, first: object, second: object])[] = [
        ['Large', { details: values }, { options: values }],
        ['Deep', { details: nested }, { name: 'Deeper' }],
      ];
      for (const [name, first, second] of writes) {
        const { status, json } = await send('POST /lofts', { name, ...first }, call);
        assert.equal(status, 201, name);
        const { status: patched } = await send(`PATCH /lofts/${json.id}`, second, call);
        assert.equal(patched, 200);
        for (const path of [`lofts/${json.id}`, `lofts/${json.id}/edit`, 'lofts'])
          assert.equal((await browser.get(`/setup/o/large/data/${path}`)).status, 200, `${name}: ${path}`);
      }
    });

    test('the API description contains the types', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { LoftInput, Loft } = (
        json as { components: { schemas: Record<string, { properties: Record<string, object> }> } }
      ).components.schemas;
      assert.partialDeepStrictEqual(LoftInput?.properties, {
        tags: { maxItems: 3, items: { type: 'string', maxLength: 500 } },
        kinds: { items: { enum: ['sale', 'rent'] } },
        price: { properties: { amount: { minimum: 0, maximum: 1000000.5 }, currency: { enum: ['EUR'] } } },
        plan: { anyOf: [{ required: ['floors'] }, { type: 'null' }] },
        // The references of the schema would refer to other parts of the document.
        tree: { type: ['object', 'array', 'null'] },
      });
      assert.ok(LoftInput?.properties.tree !== undefined && !('anyOf' in LoftInput.properties.tree));
      assert.partialDeepStrictEqual(Loft?.properties, { details: { type: ['object', 'array', 'null'] } });
      const { parameters } = json.components as { parameters: Record<string, { name: string }> };
      assert.partialDeepStrictEqual(
        Object.values(parameters).filter(({ name }) => name === 'deposit.currency'),
        [
          {
            description:
              'Returns only records whose deposit.currency equals this value. Can be repeated to match any of several values. An empty value is ignored.',
            schema: { items: { type: 'string', pattern: '^[A-Z]{3}$' } },
          },
        ],
      );
      const source = clientSource(json as unknown as Document);
      for (const line of [
        "  readonly kinds: readonly ('sale' | 'rent')[];",
        "  readonly kinds?: crm.Values<Loft['kinds'][number]>;",
        '  readonly rooms?: readonly (number | bigint)[] | null;',
        "  readonly price: { readonly amount: string; readonly currency: 'EUR' } | null;",
        '  readonly deposit?: { readonly amount: number | string; readonly currency: string } | null;',
        '  readonly plan: unknown;',
      ])
        assert.ok(source.includes(`${line}\n`), line);
      assert.match(source, /ratios: 'decimal', price: \{ amount: 'decimal' \}/);
    });
  },
  { sources: await sourcesWith(lofts) },
);
