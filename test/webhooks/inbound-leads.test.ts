// Inbound leads: authentication, validation and stored values, in the order of the checks.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { fingerprint, secretUses } from '../../webhooks/endpoint/webhooks.ts';
import { partnerStatus } from '../../webhooks/partner-status/status.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { integerIn, record, settingsFile } from '../support/partners.ts';
import { exchange, type Node, secondNode } from '../support/people.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';

const path = '/webhooks/inbound-leads';
const request = `POST ${path}`;
const secret = 'the-inbound-secret';
const older = 'the-older-secret';
const settings = { partners: { inbound_leads: { secrets: ['${INBOUND_SECRET}', '${OLDER}', '${UNSET}'] } } };
const { environment } = settingsFile(settings, { INBOUND_SECRET: secret, OLDER: older });

onBothDrivers(
  'inbound leads',
  (instance) => {
    let first: Organization;
    let second: Organization;
    /** Nodes without a configured secret. */
    const off: Node[] = [];
    /** The problem of the endpoint, and its response, before there is an organization. */
    let initial: readonly unknown[];
    before(async () => {
      const { settings } = instance().app.webhooks;
      const [status] = await partnerStatus(tablesOf(instance().database), settings.current);
      const answer = await post({ last_name: 'Early' });
      initial = [status?.name, status?.state, status?.problem?.('en'), answer.status];
      first = await instance().organization('first');
      second = await instance().organization('second');
      for (const value of [undefined, '', ' \t ']) {
        const config = settingsFile({ partners: { inbound_leads: { secrets: ['${SECRET}'] } } });
        off.push(
          await secondNode(instance(), {
            settingsFile: config.path,
            environment: value === undefined ? {} : { SECRET: value },
          }),
        );
      }
      const none = settingsFile({ partners: { inbound_leads: { secrets: [] } } });
      off.push(await secondNode(instance(), { settingsFile: none.path }));
    });
    after(async () => {
      for (const node of off) await node.close();
    });
    const withSecret = { 'x-inbound-secret': secret };
    const post = (body: unknown, headers: Record<string, string> = withSecret) =>
      instance().call(request, { body, headers });
    const lead = (id: string, { key }: Organization = first) => record(instance(), { key }, `leads/${id}`);

    test('without an organization, the endpoint is misconfigured and responds with 404', () =>
      assert.deepEqual(initial, ['inbound_leads', 'misconfigured', 'no organization exists', 404]));

    test('the change log names the endpoint and the request as the origin of a lead', async () => {
      const answer = await post({ last_name: 'Logged' });
      const history = await instance().call(`GET /api/v1/leads/${integerIn(answer, 'id')}/history`, {
        key: first.key,
      });
      const [change] = history.json.data as readonly Readonly<Record<string, unknown>>[];
      assert.deepEqual(
        [change?.actor, change?.request_id],
        [{ kind: 'partner', id: null, name: 'inbound-leads' }, answer.headers.get('x-request-id')],
      );
    });

    test('not configured: 501 for every request', async () => {
      for (const node of off) {
        for (const call of [
          {},
          { body: { last_name: 'One' }, headers: withSecret },
          { body: '{', headers: { 'x-inbound-secret': '' } },
          { body: { last_name: 'One' }, headers: { 'x-org-slug': 'unknown', authorization: 'Bearer ' } },
          { body: { last_name: 'One' }, key: first.key },
          { body: 'x'.repeat(2_000_000) },
        ]) {
          const answer = await node.call(request, call);
          assert.equal(answer.status, 501, answer.text);
          assertErrorShape(answer);
        }
      }
    });

    const good: readonly [string, Record<string, string>][] = [
      ['X-Inbound-Secret', withSecret],
      ['bearer', { authorization: `Bearer ${secret}` }],
      ['bearer in small letters', { authorization: `bearer ${secret}` }],
      ['the older one of two', { 'x-inbound-secret': older }],
      ['the older one as bearer', { authorization: `Bearer ${older}` }],
      ['the same one twice', { ...withSecret, authorization: `Bearer ${secret}` }],
    ];
    for (const [name, headers] of good) {
      test(`secret: ${name} → 201`, async () => {
        const answer = await post({ last_name: name }, headers);
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual(Object.keys(answer.json), ['ok', 'id']);
        assert.equal(answer.json.ok, true);
        assert.equal((await lead(integerIn(answer, 'id'))).last_name, name);
      });
    }

    test('the last use of a secret replaces an earlier one, but not a later one', async () => {
      const tables = tablesOf(instance().database);
      // Only the node of this test uses this secret.
      const own = 'a-secret-that-no-other-test-uses';
      const config = settingsFile({ partners: { inbound_leads: { secrets: ['${OWN}'] } } }, { OWN: own });
      const use = { endpoint: 'inbound_leads', fingerprint: fingerprint(own) };
      const store = (time: Date) =>
        tables
          .insertInto('crm_secret_uses')
          .values({ ...use, last_used_at: time })
          .onConflict((conflict) =>
            conflict.columns(['endpoint', 'fingerprint']).doUpdateSet({ last_used_at: time }),
          )
          .execute();
      const stored = async () => (await secretUses(tables)).get(`${use.endpoint} ${use.fingerprint}`);
      const useOnce = async () => {
        const node = await secondNode(instance(), {
          settingsFile: config.path,
          environment: config.environment,
        });
        const headers = { 'x-inbound-secret': own };
        const answer = await node.call(request, { body: { last_name: 'Used' }, headers });
        assert.equal(answer.status, 201, answer.text);
        await node.close();
      };
      await store(new Date('2026-03-01T09:30:00Z'));
      const start = Date.now();
      await useOnce();
      const at = await stored();
      assert.ok(at !== undefined && at.getTime() >= start, String(at));
      const later = new Date(Date.now() + 3_600_000);
      await store(later);
      await useOnce();
      assert.deepEqual(await stored(), later);
    });

    const bad: readonly [string, () => Record<string, string>][] = [
      ['none', () => ({})],
      ['empty', () => ({ 'x-inbound-secret': '' })],
      ['wrong', () => ({ 'x-inbound-secret': 'wrong' })],
      ['truncated', () => ({ 'x-inbound-secret': secret.slice(0, -1) })],
      ['with an extra character', () => ({ 'x-inbound-secret': `${secret}x` })],
      ['in upper case', () => ({ 'x-inbound-secret': secret.toUpperCase() })],
      ['very long', () => ({ 'x-inbound-secret': 'x'.repeat(10_000) })],
      ['Basic', () => ({ authorization: `Basic ${secret}` })],
      ['valid, with Basic authorization', () => ({ ...withSecret, authorization: 'Basic abc' })],
      ['without Bearer', () => ({ authorization: secret })],
      ['two different ones, the header is valid', () => ({ ...withSecret, authorization: 'Bearer wrong' })],
      [
        'two different ones, the bearer is valid',
        () => ({ 'x-inbound-secret': 'wrong', authorization: `Bearer ${secret}` }),
      ],
      ['a reference to its environment variable', () => ({ 'x-inbound-secret': '${INBOUND_SECRET}' })],
      ["an organization's API key as bearer", () => ({ authorization: `Bearer ${first.key}` })],
      ["an organization's API key in the header", () => ({ 'x-inbound-secret': first.key })],
    ];
    for (const [name, headers] of bad) {
      test(`secret: ${name} → 401, before body and organization are checked`, async () => {
        const answers = [
          await post({ last_name: 'One' }, headers()),
          await post('{', { ...headers(), 'x-org-slug': 'unknown' }),
          await post({}, headers()),
        ];
        for (const answer of answers) {
          assert.equal(answer.status, 401);
          assert.deepEqual(errorOf(answer), errorOf(answers[0] ?? assert.fail()));
        }
      });
    }

    test('the header sent twice → 401', async () => {
      const head = ['X-Inbound-Secret', secret, 'X-Inbound-Secret', secret];
      assert.equal((await exchange(instance().url, request, head, { last_name: 'One' })).status, 401);
    });

    test('the secret is not accepted by the API', async () => {
      const answer = await instance().call('GET /api/v1/leads', { key: secret, headers: withSecret });
      assert.equal(answer.status, 401);
    });

    for (const first_name of ['Ann', undefined]) {
      for (const last_name of ['One', undefined]) {
        for (const email of ['ann@example.com', undefined]) {
          const fieldValues = Object.entries({ first_name, last_name, email }).filter(([, value]) => value);
          const expected = fieldValues.length === 0 ? 400 : 201;
          test(`${fieldValues.map(([name]) => name).join(', ') || 'none of the three'} → ${expected}`, async () => {
            const answer = await post({ company: 'Acme', phone: '1', ...Object.fromEntries(fieldValues) });
            assert.equal(answer.status, expected, answer.text);
            if (expected === 201) {
              const made = await lead(integerIn(answer, 'id'));
              for (const [name, value] of fieldValues) assert.equal(made[name], value);
            } else assert.match(String(answer.json.error), /first_name, last_name, email/);
          });
        }
      }
    }

    const refused: readonly [string, unknown][] = [
      ['only blanks', { first_name: ' ', last_name: '\t', email: '\n' }],
      ['nulls', { first_name: null, last_name: null, email: null }],
      ['a number', { last_name: 'One', phone: 4915550100 }],
      ['true', { last_name: true }],
      ['an array', { last_name: 'One', email: ['a@example.com'] }],
      ['an object', { last_name: { $ne: null } }],
      ['several invalid fields', { first_name: 1, last_name: 2, email: 3, campaign_name: 4, description: 5 }],
      ['U+0000', '{"last_name":"a\\u0000b"}'],
      ['a lone surrogate', '{"last_name":"\\ud800"}'],
      ['invalid JSON', '{"last_name":'],
      ['an array as body', [{ last_name: 'One' }]],
      ['a string as body', '"One"'],
      ['null as body', 'null'],
      ['no body', undefined],
    ];
    for (const [name, body] of refused) {
      test(`body: ${name} → 400, even for an unknown organization`, async () => {
        for (const headers of [withSecret, { ...withSecret, 'x-org-slug': 'unknown' }]) {
          const answer = await post(body, headers);
          assert.equal(answer.status, 400, answer.text);
          assertErrorShape(answer);
        }
      });
    }

    test('all invalid fields are reported together', async () => {
      const { json } = await post({ first_name: 1, last_name: [], source: {}, campaign_name: false });
      const fields = json.fields as { field: string }[];
      assert.deepEqual(
        fields.map(({ field }) => field),
        ['first_name', 'last_name', 'source', 'campaign_name'],
      );
    });

    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
    ]) {
      test(`${type} → 400`, async () => {
        assert.equal((await post('last_name=One', { ...withSecret, 'content-type': type })).status, 400);
      });
    }

    test('a body above the limit → 413, but 401 without a secret', async () => {
      const body = { last_name: 'x'.repeat(1024 * 1024) };
      assert.equal((await post(body)).status, 413);
      assert.equal((await post(body, {})).status, 401);
    });

    const slugs: readonly [string, Record<string, string>, number, (() => Organization)?][] = [
      ['the second', { 'x-org-slug': 'second' }, 201, () => second],
      ['the first', { 'x-org-slug': 'first' }, 201, () => first],
      ['absent: the lowest id', {}, 201, () => first],
      ['unknown', { 'x-org-slug': 'unknown' }, 404],
      ['empty', { 'x-org-slug': '' }, 404],
      ['capitals', { 'x-org-slug': 'Second' }, 404],
      ['an id', { 'x-org-slug': '1' }, 404],
      ['two joined', { 'x-org-slug': 'first, second' }, 404],
    ];
    for (const [name, headers, status, owner] of slugs) {
      test(`X-Org-Slug: ${name} → ${status}`, async () => {
        const answer = await post({ last_name: name }, { ...withSecret, ...headers });
        assert.equal(answer.status, status, answer.text);
        if (owner === undefined) return assertErrorShape(answer);
        const id = integerIn(answer, 'id');
        const other = owner() === first ? second : first;
        assert.equal((await lead(id, owner())).last_name, name);
        assert.equal((await instance().call(`GET /api/v1/leads/${id}`, { key: other.key })).status, 404);
      });
    }

    const mappings: readonly [string, Record<string, unknown>, Record<string, unknown>][] = [
      [
        'everything',
        {
          first_name: 'Zoë',
          last_name: 'O’Neil',
          email: 'Z@Example.com',
          company: 'A & B',
          phone: '+49 (30) 1',
          source: 'Billboard',
        },
        {
          first_name: 'Zoë',
          last_name: 'O’Neil',
          email: 'Z@Example.com',
          company: 'A & B',
          phone: '+49 (30) 1',
          source: 'Billboard',
          status: 'Open - Not Contacted',
          owner_id: null,
        },
      ],
      [
        'campaign_name beside a description',
        { last_name: 'A', description: 'Wants <b>two</b>', campaign_name: 'Spring' },
        { description: 'Wants <b>two</b>\nCampaign: Spring' },
      ],
      [
        'campaign_name alone',
        { last_name: 'A', campaign_name: 'Spring {{x}}' },
        { description: 'Campaign: Spring {{x}}' },
      ],
      ['a description alone', { last_name: 'A', description: ' as it is ' }, { description: ' as it is ' }],
      [
        'null is treated as absent',
        { last_name: 'A', description: null, campaign_name: null },
        { description: '' },
      ],
      [
        'unknown and read-only keys are ignored',
        {
          last_name: 'A',
          id: 7,
          status: 'Closed - Converted',
          rating: 5,
          organization_id: 2,
          owner_id: 1,
          meta_leadgen_id: '9',
          lead_score: 'x',
          created_at: 'x',
          __proto: 1,
        },
        { status: 'Open - Not Contacted', rating: '', meta_leadgen_id: '', lead_score: 0 },
      ],
    ];
    for (const [name, body, expected] of mappings) {
      test(`stored: ${name}`, async () => {
        const answer = await post(body);
        assert.equal(answer.status, 201, answer.text);
        const made = await lead(integerIn(answer, 'id'));
        for (const [field, value] of Object.entries(expected)) assert.deepEqual(made[field], value, field);
      });
    }

    test('other methods → 405', async () => {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const answer = await instance().call(`${method} ${path}`, { headers: withSecret });
        assert.equal(answer.status, 405);
        assert.equal(answer.headers.get('allow'), 'POST, OPTIONS');
      }
    });
  },
  { environment },
);
