// Formats of strings: what is valid, and how filters, unique fields and `match` compare values.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const clients = {
  file: 'clients.yaml',
  text: `
singular: client
common: all
fields:
  name: { type: string }
  email: { type: string, format: email, unique: true, message: Enter an email address. }
  site: { type: string, format: url }
  phone: { type: string, format: phone }
  zone: { type: string, format: iana_timezone }
  iban: { type: string, format: iban, nullable: true }
  land: { type: string, format: country }
  coin: { type: string, format: currency }
filters: [phone, site, land, { field: email, operators: [eq, ne, in] }, { field: iban, operators: [eq, in] }]
`,
};

/** Valid and invalid values, and a value of the right shape that only the API rejects, if any. */
const cases: readonly (readonly [
  field: string,
  valid: readonly string[],
  invalid: readonly string[],
  message: string,
])[] = [
  [
    'email',
    ['ada@engines.example', 'O.Neil+crm@sub.engines.example', 'jörg@müller.example'],
    ['ada', 'ada@', '@engines.example', 'a b@engines.example', 'ada@engines', `${'a'.repeat(250)}@x.example`],
    'Enter an email address.',
  ],
  [
    'site',
    ['https://engines.example', 'HTTP://engines.example/a?b=c#d'],
    ['engines.example', 'ftp://engines.example', 'https://', 'https://a b.example', 'javascript:alert(1)'],
    'site must be a URL that starts with http:// or https://',
  ],
  [
    'phone',
    ['+1 (555) 010-0', '0049 30 123456', '110'],
    ['12', '1234567890123456', 'call me', '+', '030/12 ext. 4'],
    'phone must be a phone number',
  ],
  [
    'zone',
    ['Europe/Berlin', 'UTC', 'america/new_york'],
    ['Berlin', '+01:00', 'Europe/Atlantis'],
    'zone must be an IANA time zone, for example Europe/Berlin',
  ],
  [
    'iban',
    ['NL91 ABNA 0417 1643 00', 'fr1420041010050500013M02606'],
    ['DE88370400440532013000', 'DE89', 'X'],
    'iban must be a valid IBAN',
  ],
  ['land', ['DE', 'fr'], ['Germany', 'XX', 'D'], 'land must be an ISO 3166 country code, for example DE'],
  ['coin', ['EUR', 'usd'], ['euro', 'QQQ', '€'], 'coin must be an ISO 4217 currency code, for example EUR'],
];

onBothDrivers(
  'formats',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const send = (request: string, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key: acme.key, body, ...call });
    const run = (text: string) => sql.raw(text).execute(tablesOf(instance().database));
    const create = async (body: object) => {
      const { status, json, text } = await send('POST /clients', body);
      assert.equal(status, 201, text);
      return json;
    };
    const namesWith = async (query: string) => {
      const { status, json, text } = await send(`GET /clients?${query}`);
      assert.equal(status, 200, text);
      return (json.data as { name: string }[]).map(({ name }) => name).sort();
    };

    for (const [field, valid, invalid, message] of cases)
      test(`${field}: values are validated and stored as sent`, async () => {
        for (const value of [...valid, '']) assert.equal((await create({ [field]: value }))[field], value);
        for (const value of invalid) {
          const { status, json } = await send('POST /clients', { [field]: value });
          assert.deepEqual([status, json.fields], [400, [{ field, message }]], value);
        }
      });

    test('hand-written SQL cannot store values of another shape', async () => {
      for (const assignment of [
        "email = 'ada'",
        "site = 'engines.example'",
        "phone = 'none'",
        "zone = '+01:00'",
        "iban = '4711'",
        "land = 'Germany'",
        "coin = 'euro'",
      ])
        await assert.rejects(run(`update clients set ${assignment}`), /clients_\w+_rules/);
    });

    describe('comparisons', () => {
      before(async () => {
        await create({ name: 'Proux', email: 'Proux@Cafe.example', phone: '+33 (1) 23 45', land: 'fr' });
        await create({
          name: 'Other',
          email: 'other@cafe.example',
          phone: '33 1 23 46',
          iban: 'GB29NWBK60161331926819',
        });
        await create({
          name: 'Third',
          site: 'https://engines.example/Third',
          iban: 'DE89370400440532013000',
        });
      });

      for (const [query, names] of [
        ['email=PROUX@cafe.example', ['Proux']],
        ['email[in]=PROUX@cafe.example&email[in]=OTHER@cafe.example', ['Other', 'Proux']],
        ['phone=0033%2012-345', ['Proux']],
        ['phone=0033%2012-345&phone=%2B33.1.2346', ['Other', 'Proux']],
        ['phone=none', []],
        ['land=FR&email=proux@cafe.example', ['Proux']],
        ['iban=gb29%20nwbk%206016%201331%209268%2019', ['Other']],
        [
          'iban[in]=gb29%20nwbk%206016%201331%209268%2019&iban[in]=de89370400440532013000',
          ['Other', 'Third'],
        ],
        // A URL's path depends on the case.
        ['site=https://engines.example/third', []],
        ['site=https://engines.example/Third', ['Third']],
      ] as const)
        test(`?${query} finds ${names.join(' and ') || 'nothing'}`, async () => {
          assert.deepEqual(await namesWith(query), names);
        });

      test('ne excludes all notations of a value', async () => {
        assert.deepEqual(await namesWith('phone=0033%2012-345&email[ne]=PROUX@CAFE.EXAMPLE'), []);
        assert.deepEqual(await namesWith('phone=0033%2012-345&email[ne]=other@cafe.example'), ['Proux']);
      });

      test('a unique value cannot be stored in another notation', async () => {
        const [{ id } = { id: 0 }] = (await send('GET /clients?email=proux@cafe.example')).json.data as {
          id: number;
        }[];
        const { status, json } = await send('POST /clients', { email: 'PROUX@CAFE.EXAMPLE' });
        assert.deepEqual([status, json.code, json.existing_id], [409, 'duplicate', id]);
        const records = [{ email: 'new@cafe.example' }, { email: 'NEW@cafe.example' }];
        const batch = await send('POST /clients/batch', { records });
        assert.deepEqual([batch.status, batch.json.code], [400, 'items_refused']);
        assert.deepEqual(await namesWith('email=new@cafe.example'), []);
      });

      test('match finds the record in another notation, also within an import', async () => {
        const records = [{ email: 'OTHER@CAFE.example', name: 'Other 2' }];
        const { json } = await send('POST /clients/batch', { records, match: ['email'] });
        assert.deepEqual(
          (json.results as { status: number }[]).map(({ status }) => status),
          [200],
        );
        const twice = await send('POST /clients/batch', {
          records: [{ email: 'a@b.example' }, { email: 'A@b.example' }],
          match: ['email'],
        });
        assert.equal(twice.status, 400);
        const lines =
          'email,name\nIMPORTED@cafe.example,First\nimported@cafe.example,Second\nother@CAFE.example,Other 3\n';
        const imported = await send('POST /clients/import?match=email', undefined, {
          body: lines,
          headers: { 'content-type': 'text/csv' },
        });
        assert.deepEqual([imported.json.created, imported.json.updated, imported.json.failed], [1, 2, 0]);
        assert.deepEqual(await namesWith('email=Imported@cafe.example'), ['Second']);
        assert.deepEqual(await namesWith('email=other@cafe.example'), ['Other 3']);
      });
    });

    test('the API description and the form name the format', async () => {
      const { json } = await instance().call('GET /docs/openapi.json');
      const { ClientInput } = (
        json as { components: { schemas: Record<string, { properties: Record<string, object> }> } }
      ).components.schemas;
      assert.partialDeepStrictEqual(ClientInput?.properties, {
        email: { format: 'email' },
        site: { format: 'uri' },
        zone: { format: 'iana-timezone' },
      });
      const browser = await signIn(instance(), administratorOf(acme));
      const { text } = await browser.get('/setup/o/acme/data/clients/new');
      assert.match(text, /<input type="email" id="in-email"/);
    });
  },
  { sources: await sourcesWith(clients) },
);
