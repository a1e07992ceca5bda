// Payment hooks for five customers, defined by configuration only: authentication and results.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { fingerprint } from '../../webhooks/endpoint/webhooks.ts';
import { administratorOf, readable, signIn } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import {
  hmacHex,
  integerIn,
  nowSeconds,
  record,
  settingsFile,
  stripeSignature,
} from '../support/partners.ts';
import {
  type Customer,
  customers,
  entries,
  newSecret,
  oldSecret,
  organization,
  variables,
} from '../support/payments.ts';
import { exchange, fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { assertErrorShape } from '../support/scenario.ts';

/** Variants of the simplest entry, with a different organization or without a secret. */
const [acme] = customers as readonly [Customer, ...Customer[]];
const file = settingsFile(
  {
    partners: {
      // The organization has no sender.
      booking_forms_whatsapp: { secrets: ['the-token-of-booking-forms'], organization },
      payments: {
        ...entries,
        lost: { ...acme.entry, organization: 'unknown' },
        idle: acme.entry,
        off: { ...acme.entry, verify: { header: 'X-Acme-Key', secrets: ['${OFF}', ''] } },
        picky: {
          ...acme.entry,
          event_id_header: 'X-Event-Id',
          when: { '{{type}}': ['paid', 'captured'], '{{mode}}': ['live'] },
          opportunity: { name: '{{title}}', currency: '{{currency}}', close_date: '{{paid_at}}' },
        },
        exact: {
          ...acme.entry,
          event_id: '{{id}}',
          opportunity: { amount: '{{total}}', currency: '{{currency}}', minor_units: true },
        },
      },
    },
    messaging: {},
  },
  variables,
);

onBothDrivers(
  'payment hooks',
  (instance) => {
    let shop: Organization;
    let other: Organization;
    before(async () => {
      other = await instance().organization('other');
      shop = await instance().organization(organization);
    });
    const send = (name: string, raw: string, headers: Record<string, string>): Promise<Answer> =>
      instance().call(`POST /webhooks/${name}-payment`, { body: raw, headers });
    const makeLead = async (fields: object, { key } = shop): Promise<string> => {
      const answer = await instance().call('POST /api/v1/leads', { key, body: fields });
      assert.equal(answer.status, 201, answer.text);
      return integerIn(answer, 'id');
    };
    const events = (event: string) =>
      tablesOf(instance().database)
        .selectFrom('crm_payment_events')
        .selectAll()
        .where('event_id', '=', event)
        .execute();
    /** Sends a payment for the simplest customer. */
    const pay = (body: object | string, name = 'acme') =>
      send(name, typeof body === 'string' ? body : JSON.stringify(body), { 'x-acme-key': newSecret('acme') });

    for (const customer of customers) {
      const { name, payload, headers, eventId, opportunity } = customer;
      describe(name, () => {
        const delivery = (event = fresh(name), email = `${event}@example.com`) => {
          const raw = JSON.stringify(payload({ event, email, phone: '+15550100' }));
          return { event, email, raw };
        };
        test('converts the lead and creates a Closed Won opportunity, once', async () => {
          const { event, email, raw } = delivery();
          const lead = await makeLead({ last_name: 'Payer', email: email.toUpperCase() });
          const answer = await send(name, raw, headers(raw, newSecret(name), event));
          assert.equal(answer.status, 200, answer.text);
          assert.deepEqual(Object.keys(answer.json), ['ok', 'lead_id', 'opportunity_id']);
          assert.equal(integerIn(answer, 'lead_id'), lead);
          assert.equal((await record(instance(), shop, `leads/${lead}`)).status, 'Closed - Converted');
          const id = integerIn(answer, 'opportunity_id');
          const { close_date, ...made } = await record(instance(), shop, `opportunities/${id}`);
          assert.deepEqual([made.stage, made.probability], ['Closed Won', 100]);
          assert.equal(made.name, String(opportunity.name).replace('{event}', event));
          assert.equal(made.amount, opportunity.amount);
          assert.equal(Date.parse(String(close_date)), Date.parse(String(opportunity.close_date)));
          assert.equal((await events(eventId(raw, event))).length, 1);

          const again = await send(name, raw, headers(raw, oldSecret(name), event));
          assert.equal(again.status, 200, 'the older secret');
          assert.deepEqual(again.json, { ...answer.json, duplicate: true });
          assert.equal((await events(eventId(raw, event))).length, 1);
        });

        test('a wrong signature → 401 before the body is parsed, and nothing is stored', async () => {
          const { event, raw } = delivery();
          const validHeaders = headers(raw, newSecret(name), event);
          const [header = ''] = Object.keys(validHeaders);
          const { [header]: signature = '', ...others } = validHeaders;
          const flipped = `${signature.slice(0, -3)}${signature.at(-3) === 'a' ? 'b' : 'a'}${signature.slice(-2)}`;
          const invalidRequests: readonly [string, Record<string, string>][] = [
            [raw, others],
            [raw, { ...others, [header]: '' }],
            [raw, { ...others, [header]: flipped }],
            [raw, { ...others, [header]: `${signature}x` }],
            [raw, headers(raw, 'another secret', event)],
            [raw, headers(raw, '', event)],
            [raw, { ...others, authorization: `Bearer ${newSecret(name)}` }],
            [raw, { ...others, [header]: shop.key }],
            ['{', others],
            // All schemes except the shared key sign the body.
            ...(name === 'acme'
              ? []
              : ([
                  [raw.replace('{', '{ '), validHeaders],
                  [raw.replace('@', '%'), validHeaders],
                  ['', validHeaders],
                ] as [string, Record<string, string>][])),
          ];
          for (const [index, [body, headerSet]] of invalidRequests.entries()) {
            const answer = await send(name, body, headerSet);
            assert.equal(answer.status, 401, `${index}: ${answer.text}`);
            assertErrorShape(answer);
          }
          assert.deepEqual(await events(eventId(raw, event)), []);
        });

        test('a signed body that is not a JSON object → 400', async () => {
          for (const raw of ['{', '[]', 'null', '"x"', '7', '{"a":\u0000}']) {
            const answer = await send(name, raw, headers(raw, newSecret(name), fresh('bad')));
            assert.equal(answer.status, 400, answer.text);
            assertErrorShape(answer);
          }
        });
      });
    }

    describe('stripe', () => {
      const event = fresh('evt');
      const body = { type: 'checkout.session.completed', id: event };
      const raw = JSON.stringify(body);
      const secret = newSecret('stripe');
      const v1 = (time: number) => hmacHex(secret, `${time}.${raw}`);
      /** Signatures as functions of the current time, because other tests run between loading and sending. */
      const signatures: readonly [string, (now: number) => string, number][] = [
        ['two v1, the first by another secret', (now) => stripeSignature(['other', secret], raw, now), 200],
        ['two v1, the second by another secret', (now) => stripeSignature([secret, 'other'], raw, now), 200],
        ['with v0 and blanks', (now) => `t=${now}, v0=abc, v1=${v1(now)}`, 200],
        ['old, within the tolerance', (now) => stripeSignature([secret], raw, now - 200), 200],
        ['older than the tolerance', (now) => stripeSignature([secret], raw, now - 301), 401],
        ['from the future, within the tolerance', (now) => stripeSignature([secret], raw, now + 200), 200],
        ['from the future', (now) => stripeSignature([secret], raw, now + 400), 401],
        ['no timestamp', (now) => `v1=${v1(now)}`, 401],
        ['an invalid timestamp', () => `t=now,v1=${hmacHex(secret, `now.${raw}`)}`, 401],
        ['a timestamp other than the signed one', (now) => `t=${now - 1},v1=${v1(now)}`, 401],
        ['v0 only', (now) => `t=${now},v0=${v1(now)}`, 401],
        ['an empty v1', (now) => `t=${now},v1=`, 401],
        ['of the body without the timestamp', (now) => `t=${now},v1=${hmacHex(secret, raw)}`, 401],
      ];
      for (const [name, signature, status] of signatures) {
        test(`signature: ${name} → ${status}`, async () => {
          const answer = await send('stripe', raw, { 'stripe-signature': signature(nowSeconds()) });
          assert.equal(answer.status, status, answer.text);
        });
      }
      test('other event types are accepted and ignored', async () => {
        const other = JSON.stringify({ type: 'charge.refunded', id: 'evt_other' });
        const answer = await send('stripe', other, { 'stripe-signature': stripeSignature([secret], other) });
        assert.deepEqual([answer.status, answer.json], [200, { ok: true, ignored: true }]);
        assert.deepEqual(await events('evt_other'), []);
      });
    });

    test('a signature in hex can be in capitals', async () => {
      const raw = JSON.stringify({ id: fresh('capitals') });
      const headers = { 'x-razorpay-event-id': fresh('capitals') };
      for (const [secret, status] of [
        [newSecret('razorpay'), 200],
        ['another secret', 401],
      ] as const) {
        const signature = hmacHex(secret, raw).toUpperCase();
        const answer = await send('razorpay', raw, { ...headers, 'x-razorpay-signature': signature });
        assert.equal(answer.status, status, answer.text);
      }
    });

    test("only WooCommerce's ping is accepted without a signature", async () => {
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      assert.deepEqual((await send('woo', 'webhook_id=12', form)).json, { ok: true });
      for (const [name, body, headers] of [
        ['woo', 'webhook_id=12&x=1', form],
        ['woo', 'webhook_id=x', form],
        ['woo', `webhook_id=${'1'.repeat(29)}`, form],
        ['woo', 'webhook_id=12', {}],
        ['woo', 'webhook_id=12', { ...form, 'x-wc-webhook-signature': 'wrong' }],
        ['shopify', 'webhook_id=12', form],
        ['acme', 'webhook_id=12', form],
      ] as const) {
        assert.equal((await send(name, body, headers)).status, 401, `${name} ${body}`);
      }
    });

    test('a payment is accepted whatever else the payload contains', async () => {
      const email = `${fresh('JOSÉ')}@Example.com`;
      const lead = await makeLead({ email });
      const payloads: readonly [string, object][] = [
        ['an object instead of a string', { id: { a: 1 }, customer: { email: { toString: 1 }, phone: [] } }],
        ['a surrogate pair at the length limit of a name', { id: `${'x'.repeat(993)}😀`, customer: {} }],
        ['an email address in capitals, not all of them ASCII', { id: fresh('order'), customer: { email } }],
      ];
      for (const [description, payload] of payloads) {
        const answer = await pay(payload);
        assert.equal(answer.status, 200, `${description}: ${answer.text}`);
        if ('email' in (payload as { customer: object }).customer && description.includes('capitals')) {
          assert.equal(integerIn(answer, 'lead_id'), lead);
        }
      }
    });

    test('only a payment that meets all conditions is applied', async () => {
      for (const [type, mode, isApplied] of [
        ['paid', 'live', true],
        ['captured', 'live', true],
        ['refunded', 'live', false],
        ['paid', 'test', false],
        ['paid', undefined, false],
      ] as const) {
        const { json } = await pay({ type, mode, id: fresh('condition') }, 'picky');
        assert.deepEqual(json, { ok: true, ...(isApplied ? { matched: false } : { ignored: true }) });
      }
    });

    test('an event is identified by its header or, without the header, by its body', async () => {
      const body = { type: 'paid', mode: 'live', id: fresh('body') };
      const raw = JSON.stringify(body);
      const isDuplicate = async (text: string, headers: Record<string, string> = {}) =>
        (await send('picky', text, { 'x-acme-key': newSecret('acme'), ...headers })).json.duplicate === true;
      const header = { 'x-event-id': fresh('header') };
      assert.deepEqual(
        [
          await isDuplicate(raw),
          await isDuplicate(raw),
          await isDuplicate(`${raw} `),
          await isDuplicate(raw, header),
          await isDuplicate(`${raw}  `, header),
        ],
        [false, true, false, false, true],
      );
      assert.equal((await events(acme.eventId(raw, ''))).length, 1);
      assert.equal((await events(header['x-event-id'])).length, 1);
    });

    test('an opportunity without a name, currency and date has defaults', async () => {
      for (const [values, name, description] of [
        [{}, 'Payment', ''],
        [{ paid_at: 'yesterday', currency: 'eur' }, 'Payment', 'Paid in EUR.'],
        [{ paid_at: 12_345_678, title: ' ', currency: ' ' }, 'Payment', ''],
        [{ paid_at: 1_767_225_600_000 }, 'Payment', ''],
        [{ title: 'x'.repeat(1001) }, 'x'.repeat(1000), ''],
      ] as const) {
        const email = `${fresh('default')}@example.com`;
        await makeLead({ email });
        const start = Date.now();
        const answer = await pay({ type: 'paid', mode: 'live', customer: { email }, ...values }, 'picky');
        const id = integerIn(answer, 'opportunity_id');
        const { close_date, ...opened } = await record(instance(), shop, `opportunities/${id}`);
        assert.deepEqual([opened.name, opened.description, opened.amount], [name, description, 0]);
        const at = Date.parse(String(close_date));
        assert.ok(at >= start && at <= Date.now(), String(close_date));
      }
    });

    test('event IDs of any length identify an event', async () => {
      const id = Array.from({ length: 1000 }, (_, index) => String.fromCodePoint(0x4e00 + index)).join('');
      const body = { id, total: 100, currency: 'EUR' };
      const first = await pay(body, 'exact');
      assert.equal(first.status, 200, first.text);
      assert.equal((await pay(body, 'exact')).json.duplicate, true);
      assert.equal((await pay({ ...body, id: `${id}x` }, 'exact')).json.duplicate, undefined);
    });

    test('order of checks: 501, 401, 400, 404; unknown customers get 404', async () => {
      const key = { 'x-acme-key': newSecret('acme') };
      const calls: readonly [string, string, Record<string, string>, number][] = [
        ['off', '{}', key, 501],
        ['off', '{', { 'x-acme-key': '' }, 501],
        ['off', '{', {}, 501],
        ['lost', '{', {}, 401],
        ['lost', '{', key, 400],
        ['lost', '{"total":"much"}', key, 400],
        ['lost', '{}', key, 404],
        ['unknown', '{}', key, 404],
        ['__proto__', '{}', key, 404],
        ['constructor', '{}', key, 404],
        ['Acme', '{}', key, 404],
      ];
      for (const [name, body, headers, status] of calls) {
        const answer = await send(name, body, headers);
        assert.equal(answer.status, status, `${name} ${body}: ${answer.text}`);
        assertErrorShape(answer);
      }
      assert.equal((await instance().call('POST /webhooks/acme', { body: {}, headers: key })).status, 404);
      assert.equal((await instance().call('GET /webhooks/acme-payment', { headers: key })).status, 405);
      assert.equal((await instance().call('POST /webhooks/unknown-payment')).status, 404);
      const twice = ['X-Acme-Key', newSecret('acme'), 'X-Acme-Key', newSecret('acme')];
      assert.equal((await exchange(instance().url, 'POST /webhooks/acme-payment', twice, {})).status, 401);
    });

    test('the admin UI shows only the endpoints, errors and payments without a lead of the organization', async () => {
      const email = `${fresh('known')}@example.com`;
      await makeLead({ email });
      const [matched, unmatched] = [fresh('matched'), fresh('unmatched')];
      await pay({ id: matched, customer: { email } }, 'exact');
      const earlier = fresh('earlier');
      await pay({ id: earlier }, 'exact');
      await pay({ id: unmatched }, 'exact');
      await tablesOf(instance().database)
        .insertInto('crm_secret_uses')
        .values({
          endpoint: 'payments.idle',
          fingerprint: fingerprint(newSecret('acme')),
          last_used_at: new Date('2026-03-01T09:30:59Z'),
        })
        .execute();
      const pagesOf = async (owner: Organization, query = '') => {
        const { slug } = owner;
        const admin = await signIn(instance(), administratorOf(owner));
        const read = async (path: string) => readable((await admin.get(`/setup/o/${slug}${path}`)).text);
        return {
          home: await read(''),
          endpoints: await read('/partners'),
          payments: await read(`/partners?show=payments${query}`),
        };
      };
      const problem = 'booking_forms_whatsapp is misconfigured: messaging has no sender for "shop"';
      const own = await pagesOf(shop);
      assert.ok(own.home.includes(problem), own.home);
      assert.match(own.endpoints, /payments\.acme[\s\S]*\/webhooks\/acme-payment/);
      const german = await signIn(instance(), administratorOf(shop));
      for (const path of ['', '/partners']) {
        const page = await german.get(`/setup/o/${shop.slug}${path}`, { 'accept-language': 'de' });
        assert.match(readable(page.text), /messaging enthält keinen Absender für „shop“/, path);
      }
      assert.doesNotMatch(own.endpoints, /payments\.lost/, 'the entry of an unknown organization');
      assert.ok(own.payments.includes(unmatched));
      assert.ok(own.payments.indexOf(unmatched) < own.payments.indexOf(earlier), 'newest first');
      const { count } = await tablesOf(instance().database)
        .selectFrom('crm_payment_events')
        .select(({ fn }) => fn.countAll<string>().as('count'))
        .where('organization_id', '=', shop.id)
        .where('answer', 'is', null)
        .executeTakeFirstOrThrow();
      assert.ok(own.endpoints.includes(`Payments without a lead (${count})`), own.endpoints);
      assert.ok(!own.payments.includes(matched));
      assert.match(own.endpoints, /payments\.idle<[\s\S]*?#1: 2026-03-01 09:30 UTC, #2: never</);
      for (const [q, isFound] of [
        [unmatched, true],
        ['exact', true],
        ['lost', false],
      ] as const)
        assert.equal((await pagesOf(shop, `&q=${q}`)).payments.includes(unmatched), isFound, q);
      const foreign = await pagesOf(other);
      assert.ok(!foreign.home.includes('misconfigured'), foreign.home);
      assert.match(foreign.endpoints, /inbound_leads/);
      assert.doesNotMatch(foreign.endpoints, /payments\.|booking_forms/);
      assert.ok(foreign.endpoints.includes('Payments without a lead (0)'));
      assert.ok(!foreign.payments.includes(unmatched));

      const { settings } = instance().app.webhooks;
      const valid = readFileSync(file.path, 'utf8');
      const invalid =
        /The last change to config\.yaml is invalid, so the previous settings are still in use: .*inbx/;
      try {
        file.write('inbx: {}');
        await until(() => settings.problem !== undefined, 'reject the file');
        assert.match((await pagesOf(shop)).home, invalid);
      } finally {
        file.write(valid);
        await until(() => settings.problem === undefined, 'accept the file');
      }
      assert.doesNotMatch((await pagesOf(shop)).home, invalid);
    });

    const amounts: readonly [string, string, number, RegExp | number][] = [
      ['JPY has no minor unit', '"total":1200,"currency":"jpy"', 200, /"amount":1200[,}]/],
      ['KWD has three digits', '"total":1234567,"currency":"KWD"', 200, /"amount":1234\.567[,}]/],
      ['an unknown currency has two digits', '"total":"5","currency":"€€"', 200, /"amount":0\.05[,}]/],
      ['a missing currency has two digits', '"total":100', 200, /"amount":1(\.00?)?[,}]/],
      ['beyond 2^53', '"total":9007199254740993', 200, /"amount":90071992547409\.93[,}]/],
      ['a fraction of a minor unit', '"total":1999.5', 200, /"amount":19\.995[,}]/],
      ['less than a minor unit', '"total":"0.25"', 200, /"amount":0\.0025[,}]/],
      [
        'a fraction in a currency without a minor unit',
        '"total":1200.75,"currency":"JPY"',
        200,
        /"amount":1200\.75[,}]/,
      ],
      ['three digits and a fraction', '"total":-1234.5678,"currency":"KWD"', 200, /"amount":-1\.2345678[,}]/],
      ['a string', '"total":"1999"', 200, /"amount":19\.99[,}]/],
      ['none', '"x":1', 200, /"amount":0[,}]/],
      ['a word', '"total":"much"', 400, 0],
      ['an object', '"total":{}', 400, 0],
      ['an exponent', '"total":"1e3"', 400, 0],
      ['a comma', '"total":"1,99"', 400, 0],
    ];
    for (const [name, part, status, expected] of amounts) {
      test(`amount: ${name} → ${status}`, async () => {
        const email = `${fresh('amount')}@example.com`;
        await makeLead({ last_name: 'Payer', email });
        const answer = await pay(`{"id":"${email}",${part},"customer":{"email":"${email}"}}`, 'exact');
        assert.equal(answer.status, status, answer.text);
        if (typeof expected === 'number') return assert.deepEqual(await events(email), []);
        const id = integerIn(answer, 'opportunity_id');
        const { text } = await instance().call(`GET /api/v1/opportunities/${id}`, { key: shop.key });
        assert.match(text, expected);
      });
    }

    describe('finding the lead', () => {
      const email = 'Which.Lead@Example.com';
      const phone = '+1 (555) 010-7788';
      /** Leads to create, by name, oldest first. */
      const ids: Record<string, string> = {};
      before(async () => {
        const made: readonly [string, object][] = [
          ['older open', { email, phone }],
          ['newer open', { email: email.toLowerCase(), phone: '0015550107788' }],
          ['newest but closed', { email, phone, status: 'Closed - Not Converted' }],
          ['by phone alone', { phone: '+49 170 1234567' }],
          ['by the shortest number', { phone: '+683 4312' }],
          ['too short a number', { phone: '110 112' }],
        ];
        for (const [name, fields] of made) ids[name] = await makeLead({ last_name: name, ...fields });
        ids.foreign = await makeLead({ email: 'foreign@example.com' }, other);
      });
      const cases: readonly [string, () => object, string][] = [
        [
          'by ID first',
          () => ({ crm: { lead: ids['older open'] }, customer: { email, phone: '6834312' } }),
          'older open',
        ],
        [
          'by email address ignoring case, open leads first, newest first',
          () => ({ customer: { email: email.toUpperCase() } }),
          'newer open',
        ],
        ['the newest if all are closed', () => ({ customer: { email: ` ${email} ` } }), 'newest but closed'],
        [
          'by email address if the ID is unknown, before the phone number',
          () => ({ crm: { lead: 999999 }, customer: { email, phone: '6834312' } }),
          'newest but closed',
        ],
        [
          'by phone number in any format',
          () => ({ customer: { email: 'no@one.example', phone: '0049-170-123 45 67' } }),
          'by phone alone',
        ],
        [
          'by a phone number with the minimum of seven digits',
          () => ({ customer: { phone: '6834312' } }),
          'by the shortest number',
        ],
      ];
      for (const [name, body, expected] of cases) {
        test(name, async () => {
          const answer = await pay({ ...body(), id: fresh('which') });
          assert.equal(answer.status, 200, answer.text);
          const lead = integerIn(answer, 'lead_id');
          assert.equal(lead, ids[expected]);
        });
      }
      const none: readonly [string, () => object][] = [
        ['no values', () => ({})],
        ['unknown', () => ({ customer: { email: 'no@one.example', phone: '+4900000000000' } })],
        ['blank values do not match blank leads', () => ({ customer: { email: '', phone: '' } })],
        ['a wildcard', () => ({ customer: { email: '%', phone: '%' } })],
        ['a short phone number', () => ({ customer: { phone: '7' } })],
        ['six digits, even if a lead has the same number', () => ({ customer: { phone: '110112' } })],
        ['an invalid ID', () => ({ crm: { lead: '1 or true' } })],
        ['objects', () => ({ customer: { email: { a: 1 }, phone: [1] } })],
        ["another organization's lead by ID", () => ({ crm: { lead: ids.foreign } })],
        [
          "another organization's lead by email address",
          () => ({ customer: { email: 'foreign@example.com' } }),
        ],
      ];
      for (const [name, body] of none) {
        test(`no lead: ${name} → matched: false, stored for administrators`, async () => {
          await makeLead({ last_name: 'blank' });
          const raw = JSON.stringify({ ...body(), id: fresh('none') });
          const answer = await pay(raw);
          assert.deepEqual([answer.status, answer.json], [200, { ok: true, matched: false }], answer.text);
          assert.deepEqual((await pay(raw)).json, { ok: true, matched: false, duplicate: true });
          const [stored, ...more] = await events(acme.eventId(raw, ''));
          assert.deepEqual([stored?.answer, stored?.payload, more], [null, raw, []]);
        });
      }
    });
  },
  { environment: file.environment },
);
