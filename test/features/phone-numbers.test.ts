// Phone numbers with and without a country code, in organizations with and without a country for numbers without one.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, problemOf, signIn } from '../support/forms.ts';
import { type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { entries, newSecret, organization as shopSlug, variables } from '../support/payments.ts';
import { fresh, logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const shops = {
  file: 'shops.yaml',
  text: `
singular: shop
common: all
custom_fields: true
fields:
  name: { type: string }
  fax: { type: string, format: phone, group: private }
  phone: { type: string, lookup: digits }
filters: [fax, { field: phone, operators: [eq, ne, in] }]
aggregates: { group_by: [name] }
`,
};
const { environment } = settingsFile({ partners: { payments: entries } }, variables);

onBothDrivers(
  'phone numbers',
  (instance) => {
    let german: Organization;
    let american: Organization;
    let digits: Organization;
    const run = (...args: string[]) => runCommand(instance(), args);
    const send = (request: string, { key }: Organization, body?: unknown, call: Call = {}) =>
      instance().call(request.replace(' /', ' /api/v1/'), { key, body, ...call });
    const notations = ['0171 1234567', '+49 171 1234567', '0049 171 1234567', '+49 (0)171 1234567'];
    const others = [
      ...['171 1234567', '0171 1234568', '', '(202) 555-0100', '+1 202 555 0100'],
      ...['0171 7777777', '+49 171 7777777'],
    ];
    const namesWith = async (query: string, organization: Organization, path = 'shops') => {
      const { status, json, text } = await send(`GET /${path}?${query}`, organization);
      assert.equal(status, 200, text);
      return (json.data as { name: string }[]).map(({ name }) => name).toSorted();
    };
    /** Sets the country, and waits until the organization's key is read again, which takes about a second. */
    const setCountry = async (organization: Organization, country: string) => {
      await run('org', 'phone-region', organization.slug, country);
      const count = country === 'none' ? 1 : 2;
      const probe = country === 'US' ? '(202) 555-0100' : '0171 7777777';
      await until(async () => (await namesWith(phone(probe), organization)).length === count, 'the country');
    };
    const phone = (...values: string[]) =>
      new URLSearchParams(values.map((value): [string, string] => ['phone', value])).toString();

    before(async () => {
      [german, american, digits] = [
        await instance().organization(shopSlug),
        await instance().organization('us'),
        await instance().organization('digits'),
      ];
      for (const organization of [german, american, digits])
        for (const number of [...notations, ...others])
          assert.equal(
            (await send('POST /shops', organization, { name: number, phone: number, fax: number })).status,
            201,
          );
      await setCountry(german, 'de');
      await setCountry(american, 'US');
    });

    test('a user finds the same notations as a key', async () => {
      const { byToken: headers } = await logIn(instance(), administratorOf(german));
      const query = phone('0171 1234567');
      const { json } = await instance().call(`GET /api/v1/shops?${query}`, { headers });
      assert.deepEqual(
        (json.data as { name: string }[]).map(({ name }) => name).toSorted(),
        await namesWith(query, german),
      );
    });

    for (const notation of notations)
      test(`DE: ${notation} finds all notations`, async () => {
        assert.deepEqual(await namesWith(phone(notation), german), notations.toSorted());
      });

    test('several spellings of one number find all notations', async () => {
      const spellings = ['+49 171 1234567', '0171/1234567', '0049 171 1234567', '0171 1234567'];
      assert.deepEqual(await namesWith(phone(...spellings), german), notations.toSorted());
      const both = ['(202) 555-0100', '+1 202 555 0100'];
      assert.deepEqual(await namesWith(phone('+1 202 555 0100', '1-202-555-0100'), american), both);
    });

    test('numbers of other countries are found by their digits', async () => {
      assert.deepEqual(await namesWith(phone('+1 (202) 555-0100'), german), ['+1 202 555 0100']);
      assert.deepEqual(await namesWith(phone('202 555 0100'), german), ['(202) 555-0100']);
    });

    test('US: numbers with and without the country code are the same, and 0171 is not a German number', async () => {
      const both = ['(202) 555-0100', '+1 202 555 0100'];
      for (const notation of ['2025550100', '1-202-555-0100', '001 202 555 0100'])
        assert.deepEqual(await namesWith(phone(notation), american), both, notation);
      assert.deepEqual(await namesWith(phone('0171 1234567'), american), ['0171 1234567']);
      assert.deepEqual(await namesWith(phone('011 49 171 1234567'), american), [
        '+49 (0)171 1234567',
        '+49 171 1234567',
        '0049 171 1234567',
      ]);
    });

    test('without a country, numbers are compared only by their digits', async () => {
      assert.deepEqual(await namesWith(phone('0171 1234567'), digits), ['0171 1234567']);
      assert.deepEqual(await namesWith(phone('+49 171 1234567'), digits), [
        '+49 171 1234567',
        '0049 171 1234567',
      ]);
    });

    test('all operators and the other filters compare notations', async () => {
      const query = (name: string, value: string) => new URLSearchParams({ [name]: value }).toString();
      assert.deepEqual(await namesWith(query('phone[in]', '0171 1234567'), german), notations.toSorted());
      assert.deepEqual(await namesWith(query('fax', '0171 1234567'), german), notations.toSorted());
      assert.deepEqual(await namesWith(query('phone[ne]', '0171 1234567'), german), others.toSorted());
      assert.deepEqual(await namesWith(phone('0171 1234567', '+1 202 555 0100'), german), [
        ...['+1 202 555 0100', ...notations].toSorted(),
      ]);
      assert.deepEqual(
        await namesWith(`${phone('0171 1234567')}&sort=phone&dir=desc`, german),
        notations.toSorted(),
      );
      const grouped = await namesWith(`${phone('0171 1234567')}&group_by=name`, german, 'shops/aggregate');
      assert.deepEqual(grouped, notations.toSorted());
      for (const method of ['PATCH', 'DELETE']) {
        const counted = await instance().call(`${method} /api/v1/shops?${phone('0171 1234567')}`, {
          ...{ key: german.key, headers: { prefer: 'bulk' } },
          ...(method === 'PATCH' && { body: { name: 'x' } }),
        });
        assert.equal(counted.json.count, notations.length, counted.text);
      }
      const where = { any: [{ field: 'phone', op: 'eq', value: '0171 1234567' }] };
      const queried = await send('POST /shops/query', german, { where });
      assert.deepEqual(
        (queried.json.data as { name: string }[]).map(({ name }) => name).toSorted(),
        notations.toSorted(),
      );
    });

    test('a filter accepts 50 values, each with all of its notations', async () => {
      const numbers = (count: number) =>
        phone('0171 1234567', ...Array.from({ length: count - 1 }, (_, index) => `0171 99${1000 + index}`));
      assert.deepEqual(await namesWith(numbers(50), german), notations.toSorted());
      assert.equal((await send(`GET /shops?${numbers(51)}`, german)).status, 400);
    });

    test('cursors remain valid when the country changes', async () => {
      for (let index = 0; index < 17; index++)
        await send('POST /shops', digits, { name: `many ${index}`, phone: '030 1234567' });
      for (let index = 0; index < 17; index++)
        await send('POST /shops', digits, { name: `more ${index}`, phone: '+49 30 1234567' });
      const first = await send(`GET /shops?${phone('030 1234567', '004930 1234567')}`, digits);
      const next = /<([^>]+)>; rel="next"/.exec(String(first.headers.get('link')))?.[1] ?? '';
      await setCountry(digits, 'DE');
      const second = await instance().call(`GET ${next}`, { key: digits.key });
      assert.deepEqual(
        [first, second].map(({ json }) => (json.data as object[]).length),
        [20, 14],
        second.text,
      );
      await setCountry(digits, 'none');
    });

    test('a hidden field is not found in any notation', async () => {
      const grants = [{ object: 'shops', actions: ['list', 'read'] }] as const;
      const reader = await signIn(
        instance(),
        await makePerson(instance(), [{ organization: german, grants }]),
      );
      const search = (q: string) => reader.get(`/setup/o/${shopSlug}/search?${new URLSearchParams({ q })}`);
      const created = await send('POST /shops', german, { name: 'Secret fax machine', fax: '0171 7654321' });
      assert.equal(created.status, 201);
      assert.doesNotMatch((await search('+49 171 7654321')).text, /Secret fax machine/);
      const admin = await signIn(instance(), administratorOf(german));
      const seen = await admin.get(
        `/setup/o/${shopSlug}/search?${new URLSearchParams({ q: '+49 171 7654321' })}`,
      );
      assert.match(seen.text, /Secret fax machine/);
    });

    test('a payment finds the lead in another notation', async () => {
      const lead = await send('POST /leads', german, { last_name: 'Payer', phone: '0172 7654321' });
      const body = JSON.stringify({ id: fresh('order'), total: 1, customer: { phone: '+49 172 7654321' } });
      const headers = { 'x-acme-key': newSecret('acme') };
      const { json, text } = await instance().call('POST /webhooks/acme-payment', { body, headers });
      assert.equal(json.lead_id, lead.json.id, text);
    });

    test('filters of contacts compare phone numbers by digits and email addresses without case', async () => {
      const { status } = await send('POST /contacts', german, {
        last_name: 'Ada',
        phone: '0173 7654321',
        email: 'Ada@x.example',
      });
      assert.equal(status, 201);
      const found = async (query: string) =>
        ((await send(`GET /contacts?${query}`, german)).json.data as object[]).length;
      assert.deepEqual(
        [await found(phone('+49 173 7654321')), await found('phone=1'), await found('email=ada@X.example')],
        [1, 0, 1],
      );
    });

    test('custom fields with the format phone are found in every notation', async () => {
      const options = ['--properties', '{"format":"phone"}'];
      await run('fields', 'create', 'shops', 'pager', 'string', '--org', shopSlug, ...options);
      await until(
        async () => (await send('GET /shops?custom.pager=1234567', german)).status === 200,
        'the custom field',
      );
      await send('POST /shops', german, { name: 'Paged', custom: { pager: '0174 7654321' } });
      const query = new URLSearchParams({ 'custom.pager': '+49 174 7654321' });
      assert.deepEqual(await namesWith(String(query), german), ['Paged']);
    });

    test('an erasure finds the records in another notation', async () => {
      await send('POST /leads', german, { last_name: 'Erased', phone: '0175 7654321' });
      const query = new URLSearchParams({ phone: '+49 175 7654321' });
      const found = await run('person', 'forget', '--org', shopSlug, '--records', `leads?${query}`);
      assert.match(found.text, /leads/);
    });

    test('administrators set the country in the admin UI', async () => {
      const admin = await signIn(instance(), administratorOf(digits));
      const page = '/setup/organizations/digits/phone-numbers';
      const invalid = await admin.submit(page, page, { country: 'XX' });
      assert.equal(invalid.status, 400);
      assert.match(problemOf(invalid), /"XX" is not the ISO 3166 code of a country/);
      assert.match(invalid.text, /value="XX"/);
      await admin.submit(page, page, { country: 'fr' });
      assert.match((await admin.get(page)).text, /value="FR"/);
      await admin.submit(page, page, { country: '' });
      assert.doesNotMatch((await admin.get(page)).text, /value="FR"/);
    });

    test('the command line shows the country and rejects unknown codes', async () => {
      const { json } = await run('org', 'list');
      const { organizations } = json as { organizations: { slug: string; phone_region: string | null }[] };
      assert.deepEqual(
        organizations.map(({ slug, phone_region: region }) => [slug, region]),
        [
          ['digits', null],
          [shopSlug, 'DE'],
          ['us', 'US'],
        ],
      );
      await assert.rejects(() => run('org', 'phone-region', 'us', 'XX'), /"XX" is not the ISO 3166 code/);
    });
  },
  { sources: await sourcesWith(shops), environment },
);
