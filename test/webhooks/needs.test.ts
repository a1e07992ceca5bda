// Partner endpoints and channels work with definitions that only have the fields declared as needed.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { modules } from '../../app/modules.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import type { RequiredField } from '../../engine/definition/definition.ts';
import { checkRequirements } from '../../engine/definition/requirements.ts';
import type { Source } from '../../engine/yaml/load.ts';
import { leadgenBody } from '../support/channels.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { deliver, inboxOf, integrate, record, settingsFile } from '../support/partners.ts';
import { until } from '../support/process.ts';
import { startProvider } from '../support/providers.ts';

/** Returns minimal definitions with the needed fields. */
function smallest(): Source[] {
  const common = ['id', 'organization_id'].map(
    (name) => `  ${name}: { type: int64, read_only: true, set: ${name.replace('_id', '')} }`,
  );
  const resources = Map.groupBy(
    modules.flatMap(({ needs = [] }) => needs),
    ({ resource }) => resource,
  );
  const sources = [...resources].map(([resource, needs]) => {
    const fields = new Map<string, string>();
    for (const [name, { types, lookup }] of needs.flatMap((need) => Object.entries(need.fields))) {
      const existing = fields.get(name);
      const attributes = lookup === undefined ? '' : `, lookup: ${lookup}`;
      const nullable = types[0] === 'timestamp' ? ', nullable: true' : '';
      if (existing === undefined || attributes !== '')
        fields.set(name, `{ type: ${types[0]}${attributes}${nullable} }`);
    }
    const lines = [...fields].map(([name, field]) => `  ${name}: ${field}`);
    return { file: `${resource}.yaml`, text: ['common: all', 'fields:', ...lines].join('\n') };
  });
  return [{ file: 'common.yaml', text: ['fields:', ...common].join('\n') }, ...sources];
}

describe('definitions without what an integration needs are rejected', () => {
  const head = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
`;
  /** Returns the lines about a field with these keys, which an integration needs. */
  const linesFor = (keys: string, required: Partial<RequiredField>, more = '', resource = 'things') => {
    const definitions = checkSources([
      { file: 'pets.yaml', text: `${head}retired: true\n` },
      { file: 'things.yaml', text: `${head}  code: { ${keys} }\n${more}\n` },
      { file: 'users.yaml', text: head },
    ]);
    const fields = { code: { types: ['string', 'text'], ...required } } as const;
    try {
      checkRequirements(definitions, [{ file: 'x.ts', resource, fields }]);
      return [];
    } catch (cause) {
      const [line = '', ...rest] = (cause as Error).message.split('\n');
      assert.deepEqual(rest, ['Restore what is missing, or first remove the integration that needs it.']);
      return [line.replace(/^things\.yaml\S* {2}/, '')];
    }
  };
  const string = 'type: string';
  const closed = 'type: string, enum: [a, b], closed: true, default: a';
  const check = 'checks: [{ that: code != "x", fields: [code], message: No. }]';
  const locked = 'locked: code == "x"';
  for (const [keys, required, problem, more, resource] of [
    [string, {}],
    ['type: integer', {}, '"code" must have type string or text: x.ts needs it'],
    [
      'type: reference, to: [things, users], nullable: true',
      { types: ['reference'] },
      '"code" must refer to a single resource: x.ts needs it',
    ],
    ['type: string, read_only: true', {}],
    ['type: string, read_only: true', { writable: true }, '"code" must not be read_only: x.ts needs it'],
    ['type: string, lookup: digits', { lookup: 'digits' }],
    [string, { lookup: 'digits' }, '"code" must have "lookup: digits": x.ts needs it'],
    [
      'type: string, lookup: caseless',
      { lookup: 'digits' },
      '"code" must have "lookup: digits": x.ts needs it',
    ],
    [closed, {}],
    [closed, { writable: true, values: ['b'] }],
    [closed, { values: ['a', 'c'] }, '"code" must accept "c": x.ts needs it'],
    [closed, { writable: true }, '"code" must not be "closed": x.ts needs it'],
    [`${closed}, transitions: { a: [b] }`, {}, '"code" must not have "transitions": x.ts needs it'],
    [string, {}, undefined, check],
    [string, { writable: true }, 'no check of things can read "code" (code != "x"): x.ts writes it', check],
    [string, {}, undefined, locked],
    [string, { writable: true }, 'things cannot have "locked": x.ts writes it', locked],
    [string, {}, '"code" of users is missing, but x.ts needs it', '', 'users'],
    [string, {}, 'the resource "leads" is missing, but x.ts needs it', '', 'leads'],
    // The integration is not served.
    [string, {}, undefined, '', 'pets'],
  ] as const satisfies readonly (readonly [
    string,
    Partial<RequiredField>,
    (string | undefined)?,
    string?,
    string?,
  ])[])
    test(`${JSON.stringify([keys, required, more, resource])}: ${problem ?? 'accepted'}`, () => {
      const lines = linesFor(keys, required, more, resource).map((line) =>
        line.replace(/^users\.yaml {2}/, ''),
      );
      assert.deepEqual(lines, problem === undefined ? [] : [problem]);
    });
});

const graph = await startProvider();
after(() => graph.close());
const secret = 'a-secret-of-a-partner';
const file = settingsFile({
  partners: {
    inbound_leads: { secrets: [secret] },
    payments: {
      acme: {
        organization: 'acme',
        verify: { header: 'X-Key', secrets: [secret] },
        event_id: '{{id}}',
        lead: { id: '{{lead}}', email: '{{email}}', phone: '{{phone}}' },
        opportunity: { name: '{{id}}', amount: '{{total}}', currency: '{{currency}}', close_date: '{{at}}' },
      },
    },
  },
  graph: { base_url: graph.url },
});

onBothDrivers(
  'needs of partners',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });

    test('inbound leads', async () => {
      const lead = {
        first_name: 'Ada',
        last_name: 'L',
        email: 'ada@example.org',
        company: 'C',
        phone: '+1 555 010 0001',
        source: 'Web',
        description: 'D',
      };
      const made = await instance().call('POST /webhooks/inbound-leads', {
        body: { ...lead, campaign_name: 'Spring' },
        headers: { 'x-inbound-secret': secret },
      });
      assert.equal(made.status, 201, made.text);
      const { id, organization_id, ...fields } = await record(instance(), acme, `leads/${made.json.id}`);
      for (const [name, value] of Object.entries({ ...lead, description: 'D\nCampaign: Spring' })) {
        assert.equal(fields[name], value, name);
      }
    });

    for (const lead of [{ email: 'ADA@example.org' }, { phone: '15550100001' }]) {
      test(`payments, by ${Object.keys(lead)}`, async () => {
        const body = {
          id: Object.keys(lead)[0],
          ...lead,
          total: 12.5,
          currency: 'EUR',
          at: '2026-01-01T00:00:00Z',
        };
        const headers = { 'x-key': secret };
        const { status, json, text } = await instance().call('POST /webhooks/acme-payment', {
          body,
          headers,
        });
        assert.deepEqual([status, json.ok], [200, true], text);
        const { id, organization_id, ...opened } = await record(
          instance(),
          acme,
          `opportunities/${json.opportunity_id}`,
        );
        assert.deepEqual(opened, {
          name: body.id,
          amount: 12.5,
          stage: 'Closed Won',
          probability: 100,
          close_date: body.at,
          description: 'Paid in EUR.',
        });
      });
    }

    test('Lead Ads', async () => {
      const page = await integrate(instance(), acme, 'meta-lead-ads');
      const field = (name: string, value: string) => ({ name, values: [value] });
      graph.leads.set('770000000001', {
        id: '770000000001',
        ad_id: '1',
        form_id: '2',
        campaign_id: '3',
        field_data: [
          field('full_name', 'Grace Hopper'),
          field('email', 'grace@example.org'),
          field('phone_number', '+15550100002'),
          field('company_name', 'Navy'),
        ],
      });
      await deliver(instance(), page, leadgenBody({ leadgen: '"770000000001"', form: '"2"', ad: '"1"' }));
      await until(async () => (await inboxOf(instance(), page))[0]?.status === 'done', 'process the lead');
      const { json } = await instance().call('GET /api/v1/leads', { key: acme.key });
      const [lead = {}] = (json.data as Record<string, unknown>[]).filter(
        ({ meta_leadgen_id: id }) => id === '770000000001',
      );
      const { first_name, last_name, email, phone, company, source, meta_campaign_id } = lead;
      assert.deepEqual(
        [first_name, last_name, email, phone, company, source, meta_campaign_id],
        ['Grace', 'Hopper', 'grace@example.org', '+15550100002', 'Navy', 'Meta Lead Ads', '3'],
      );
    });
  },
  { sources: smallest(), environment: file.environment },
);
