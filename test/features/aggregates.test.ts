// `GET /R/aggregate`: counts, sums, averages, minimums and maximums by groups, of the records that the caller can list.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/index.ts';
import { type Answer, type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { type LimitedCaller, limitedPerson } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const deals = {
  file: 'deals.yaml',
  text: `
singular: deal
common: all
trash: 30 days
fields:
  owner_id: { assignable: true }
  name: { type: string }
  stage: { type: string, renamed_from: phase, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  amount: { type: number, nullable: true, renamed_from: value, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  size: { type: integer, nullable: true }
  big: { type: int64, nullable: true }
  budget: { type: money, currency: EUR, nullable: true }
  price: { type: money, currency: any, nullable: true, renamed_from: cost, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  region: { type: string, group: finance }
  margin: { type: number, nullable: true, group: finance }
  urgent: { type: boolean }
  due: { type: date, nullable: true }
  signed_at: { type: timestamp, nullable: true }
  account_id: { type: reference, to: accounts, nullable: true }
  subject: { type: reference, to: [accounts, contacts], nullable: true }
  partner_ids: { type: references, to: accounts }
  doubled: { type: number, computed: amount * 2 }
scopes:
  own: owner_id == me
  open: stage != "Lost"
search: [name]
filters:
  - { field: stage, operators: [eq, ne] }
  - { field: amount, operators: [gte] }
  - { field: owner_id, operators: [eq] }
  - { field: partner_ids, operators: [any] }
aggregates:
  group_by: [stage, urgent, due, signed_at, account_id, owner_id, subject, region]
  measures: [amount, size, big, budget, price, margin, due, signed_at, doubled]
`,
};
/** A resource whose accounts the caller can see only in part, and one without aggregates. */
const others = [
  { file: 'own-accounts.yaml', text: 'extends: accounts\nscopes:\n  own: owner_id == me\n' },
  { file: 'plain.yaml', text: 'singular: plain_one\ncommon: all\nfields:\n  name: { type: string }\n' },
];

onBothDrivers(
  'aggregates',
  (instance) => {
    let acme: Organization;
    /** Members who can list their own deals, and all deals except lost ones. */
    let ann: LimitedCaller & { readonly id: string };
    let bob: LimitedCaller;
    let accounts: readonly number[];

    const get = (path: string, call: Call = {}) =>
      instance().call(`GET /api/v1/${path}`, { key: acme.key, ...call });
    const groups = async (query: string, call: Call = {}): Promise<string> => {
      const { status, text } = await get(`deals/aggregate?${query}`, call);
      assert.equal(status, 200, text);
      return text.replace(/^\{"data":\[(.*)\]\}$/s, '$1');
    };
    const rejection = async (query: string, call: Call = {}): Promise<string> => {
      const { status, json, text } = await get(`deals/aggregate?${query}`, call);
      assert.equal(status, 400, text);
      return String(json.error);
    };

    before(async () => {
      acme = await instance().organization('acme');
      const other = await instance().organization('other');
      ann = await limitedPerson(instance(), acme, ['deals:list:own', 'accounts:read:own']);
      bob = await limitedPerson(instance(), acme, ['deals:list:open', 'deals.finance:read']);
      const created = await Promise.all(
        ['Engines', 'Looms'].map((name) =>
          instance().call('POST /api/v1/accounts', { key: acme.key, body: { name } }),
        ),
      );
      accounts = created.map(({ json }) => Number(json.id)).sort((a, b) => a - b);
      const [first, second] = accounts;
      const deal = {
        organization_id: acme.id,
        name: 'x',
        stage: 'New',
        amount: null,
        size: null,
        big: null,
        budget: null,
        price: null,
        price_currency: null,
        region: 'North',
        margin: null,
        urgent: false,
        due: null,
        signed_at: null,
        account_id: null,
        subject: null,
        partner_ids: [],
        owner_id: null,
        trashed: null,
      };
      const rows = [
        {
          name: 'red engine',
          amount: '0.10',
          size: 2147483647,
          big: '9223372036854775807',
          budget: '10.50',
          price: '1.5',
          price_currency: 'EUR',
          due: '2026-01-31',
          signed_at: '2026-02-28T23:30:00Z',
          account_id: first,
          subject: first,
          partner_ids: [first],
          owner_id: ann.id,
          margin: '0.5',
        },
        {
          name: 'red loom',
          amount: '0.20',
          size: 2147483647,
          big: '9223372036854775807',
          price: '2',
          price_currency: 'USD',
          due: '2026-02-01',
          signed_at: '2026-03-01T00:30:00Z',
          account_id: first,
          partner_ids: [second],
          owner_id: ann.id,
          urgent: true,
          margin: '0.25',
        },
        { name: 'blue', stage: 'Lost', amount: '1', size: 1, account_id: second, region: 'South' },
        { name: 'green', stage: '', price: '3.25', price_currency: 'EUR', due: '2026-12-31' },
        { name: 'gone', amount: '1000', trashed: '2026-03-01T00:00:00Z' },
        { name: 'foreign', organization_id: other.id, amount: '1000' },
      ].map((row) => ({ ...deal, ...row }));
      await sql`insert into deals (organization_id, name, stage, amount, size, big, budget, price, "price_Currency", region,
          margin, urgent, due, signed_at, account_id, subject_account_id, partner_ids, owner_id, _trashed_at, created_at, updated_at)
        select organization_id, name, stage, amount, size, big, budget, price, price_currency, region,
          margin, urgent, due, signed_at, account_id, subject, partner_ids, owner_id, trashed, now(), now()
        from json_to_recordset(${JSON.stringify(rows)}::json) as _r(organization_id bigint, name text, stage text, amount numeric,
          size integer, big bigint, budget numeric, price numeric, price_currency text, region text, margin numeric, urgent boolean,
          due date, signed_at timestamptz, account_id bigint, subject bigint, partner_ids bigint[], owner_id bigint, trashed timestamptz)`.execute(
        tablesOf(instance().database),
      );
    });

    test('count all records without a group, except those in the trash and in other organizations', async () => {
      assert.equal(await groups(''), '{"count()":4}');
      assert.equal(await groups('measure=&group_by='), '{"count()":4}');
    });

    test('are ordered by their groups, null last', async () => {
      assert.equal(
        await groups('group_by=stage&measure=sum(amount),count()'),
        '{"stage":"","sum(amount)":0,"count()":1},{"stage":"Lost","sum(amount)":1,"count()":1},{"stage":"New","sum(amount)":0.3,"count()":2}',
      );
      assert.equal(
        await groups('group_by=due'),
        '{"due":"2026-01-31","count()":1},{"due":"2026-02-01","count()":1},{"due":"2026-12-31","count()":1},{"due":null,"count()":1}',
      );
      assert.equal(
        await groups('group_by=urgent,stage&stage=New'),
        '{"urgent":false,"stage":"New","count()":1},{"urgent":true,"stage":"New","count()":1}',
      );
      assert.equal(
        await groups('group_by=region,urgent,stage'),
        '{"region":"North","urgent":false,"stage":"","count()":1},{"region":"North","urgent":false,"stage":"New","count()":1},{"region":"North","urgent":true,"stage":"New","count()":1},{"region":"South","urgent":false,"stage":"Lost","count()":1}',
      );
    });

    test('are exact, and null without values', async () => {
      assert.equal(
        await groups('measure=sum(size),sum(big),avg(amount),min(amount),max(amount),sum(doubled)'),
        '{"sum(size)":4294967295,"sum(big)":18446744073709551614,"avg(amount)":0.4333333333333333,"min(amount)":0.1,"max(amount)":1,"sum(doubled)":2.6}',
      );
      assert.equal(
        await groups('measure=sum(size),avg(size),min(due),max(signed_at)&q=green'),
        '{"sum(size)":0,"avg(size)":null,"min(due)":"2026-12-31","max(signed_at)":null}',
      );
      assert.equal(
        await groups('measure=max(due),min(signed_at),avg(big)'),
        '{"max(due)":"2026-12-31","min(signed_at)":"2026-02-28T23:30:00Z","avg(big)":9223372036854775807}',
      );
    });

    test('of amounts never mix currencies', async () => {
      assert.equal(
        await groups('measure=sum(budget),max(budget)'),
        '{"sum(budget)":{"amount":10.5,"currency":"EUR"},"max(budget)":{"amount":10.5,"currency":"EUR"}}',
      );
      assert.equal(
        await groups('measure=sum(price),count()'),
        '{"price.currency":"EUR","sum(price)":{"amount":4.75,"currency":"EUR"},"count()":2},{"price.currency":"USD","sum(price)":{"amount":2,"currency":"USD"},"count()":1},{"price.currency":null,"sum(price)":null,"count()":1}',
      );
      assert.equal(await groups('having[sum(price)][gt]=2'), '{"price.currency":"EUR","count()":2}');
    });

    test('by periods start in a time zone', async () => {
      assert.equal(
        await groups('group_by=signed_at.month'),
        '{"signed_at.month":"2026-02-01","count()":1},{"signed_at.month":"2026-03-01","count()":1},{"signed_at.month":null,"count()":2}',
      );
      assert.equal(
        await groups('group_by=signed_at.month&tz=Europe/Berlin'),
        '{"signed_at.month":"2026-03-01","count()":2},{"signed_at.month":null,"count()":2}',
      );
      assert.equal(
        await groups('group_by=signed_at.day&tz=America/New_York'),
        '{"signed_at.day":"2026-02-28","count()":2},{"signed_at.day":null,"count()":2}',
      );
      // Dates do not depend on the time zone. Weeks start on Monday.
      for (const [period, days] of [
        ['week', ['2026-01-26', '2026-12-28']],
        ['quarter', ['2026-01-01', '2026-10-01']],
        ['year', ['2026-01-01']],
      ] as const)
        assert.deepEqual(
          [...(await groups(`group_by=due.${period}&tz=Pacific/Auckland`)).matchAll(/"(\d[\d-]+)"/g)].map(
            ([, day]) => day,
          ),
          days,
        );
    });

    test('contain the same values as a list', async () => {
      const [first, second] = accounts;
      assert.equal(
        await groups('group_by=account_id,owner_id'),
        `{"account_id":${first},"owner_id":${ann.id},"count()":2},{"account_id":${second},"owner_id":null,"count()":1},{"account_id":null,"owner_id":null,"count()":1}`,
      );
      assert.equal(
        await groups('group_by=subject'),
        `{"subject":{"resource":"accounts","id":${first}},"count()":1},{"subject":null,"count()":3}`,
      );
    });

    test('are limited by filters, words and conditions on measures', async () => {
      assert.equal(await groups('stage[ne]=New&amount[gte]=1'), '{"count()":1}');
      assert.equal(
        await groups('q=RED&group_by=urgent&measure=sum(amount)'),
        '{"urgent":false,"sum(amount)":0.1},{"urgent":true,"sum(amount)":0.2}',
      );
      assert.equal(await groups('group_by=stage&having[count()][gt]=1'), '{"stage":"New","count()":2}');
      assert.equal(
        await groups('group_by=stage&having[max(amount)][gt]=0.5'),
        '{"stage":"Lost","count()":1}',
        'another measure, compared in the same way',
      );
      assert.equal(
        await groups('group_by=stage&having[count()][gt]=1&having[count()][lt]='),
        '{"stage":"New","count()":2}',
        'an empty value is not a condition',
      );
      assert.equal(
        await groups('group_by=stage&having[count()][lte]=1'),
        '{"stage":"","count()":1},{"stage":"Lost","count()":1}',
      );
      assert.equal(
        await groups('group_by=stage&having[count()][lte]=2&having[count()][lt]=2'),
        '{"stage":"","count()":1},{"stage":"Lost","count()":1}',
      );
      assert.equal(
        await groups(
          'group_by=stage&having[sum(amount)][gte]=0.1&having[max(amount)][lt]=1&measure=avg(amount)',
        ),
        '{"stage":"New","avg(amount)":0.15}',
      );
      assert.equal(
        await groups('group_by=stage&having[min(due)][eq]=2026-12-31'),
        '{"stage":"","count()":1}',
      );
      assert.equal(await groups('having[count()][gt]=99'), '');
    });

    describe('of callers with limited rights', () => {
      test('contain only the records in their scopes', async () => {
        const call = { key: ann.key };
        assert.equal(await groups('', call), '{"count()":2}');
        assert.equal(await groups('owner_id=me&measure=sum(amount)', call), '{"sum(amount)":0.3}');
        assert.equal(
          await groups('group_by=stage', { key: bob.key }),
          '{"stage":"","count()":1},{"stage":"New","count()":2}',
        );
      });

      test('are grouped by references to records that the caller cannot read', async () => {
        const [first] = accounts;
        assert.equal(
          await groups('group_by=owner_id,account_id', { key: ann.key }),
          `{"owner_id":${ann.id},"account_id":${first},"count()":2}`,
        );
      });

      test('do not reveal invisible references with filters', async () => {
        assert.equal(await groups(`partner_ids[any]=${accounts[0]}`), '{"count()":1}');
        assert.equal(await groups(`partner_ids[any]=${accounts[0]}`, { key: ann.key }), '{"count()":0}');
      });

      test('do not know hidden fields', async () => {
        assert.equal(
          await groups('group_by=region&measure=sum(margin)', { key: bob.key }),
          '{"region":"North","sum(margin)":0.75}',
        );
        const call = { key: ann.key };
        for (const [hidden, missing] of [
          ['group_by=region', 'group_by=regiox'],
          ['measure=sum(margin)', 'measure=sum(margix)'],
          ['having[sum(margin)][gt]=0', 'having[sum(margix)][gt]=0'],
        ] as const)
          assert.equal(
            (await rejection(hidden, call)).replace(/region|margin/, '…'),
            (await rejection(missing, call)).replace(/regiox|margix/, '…'),
          );
      });

      test('need the grant to list', async () => {
        const { key } = await limitedPerson(instance(), acme, ['deals:read']);
        assert.equal((await get('deals/aggregate', { key })).status, 403);
      });
    });

    test('are available as CSV and NDJSON', async () => {
      const as = (accept: string, query: string) => get(`deals/aggregate?${query}`, { headers: { accept } });
      const query = 'group_by=stage&measure=sum(amount),sum(price)&q=red';
      const csv = await as('text/csv', query);
      assert.equal(csv.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
      assert.equal(
        csv.text,
        'stage,price.currency,sum(amount),sum(price)\r\nNew,EUR,0.1,1.5 EUR\r\nNew,USD,0.2,2 USD\r\n',
      );
      assert.equal(
        (await as('application/x-ndjson', 'group_by=stage&q=red')).text,
        '{"stage":"New","count()":2}\n',
      );
      assert.equal((await as('text/csv', 'group_by=stage&q=nothing')).text, 'stage,count()\r\n');
    });

    test('accept former names, and return the requested ones', async () => {
      assert.equal(
        await groups('group_by=phase&measure=sum(value)&phase=New&having[sum(value)][gt]=0'),
        '{"phase":"New","sum(value)":0.3}',
      );
      assert.equal(
        await groups('measure=sum(cost)&having[sum(cost)][gt]=2'),
        '{"cost.currency":"EUR","sum(cost)":{"amount":4.75,"currency":"EUR"}}',
      );
    });

    test('with more than 1,000 groups are rejected', async () => {
      const many = await instance().organization('many');
      await sql`insert into deals (organization_id, name, stage, region, urgent, partner_ids, created_at, updated_at)
        select ${many.id}::bigint, case when n < 1000 then 'few' else 'more' end, n, '', false, '{}', now(), now()
        from generate_series(0, 1000) n`.execute(tablesOf(instance().database));
      const message =
        'group_by results in more than 1,000 groups. Add filters, or use fewer fields or longer periods.';
      for (const accept of ['application/json', 'text/csv']) {
        const call = { key: many.key, headers: { accept } };
        assert.equal(await rejection('group_by=stage', call), message);
        const { status, text } = await get('deals/aggregate?group_by=stage&q=few', call);
        assert.equal(status, 200);
        assert.equal(text.split(/[\n{]/).length - 2, 1000);
      }
    });

    test('group long strings by their first 500 characters', async () => {
      const { key } = await instance().organization('long');
      const start = 'x'.repeat(500);
      for (const end of ['a', 'b'])
        await instance().call('POST /api/v1/deals', { key, body: { stage: `${start}${end}` } });
      assert.equal(await groups('group_by=stage', { key }), `{"stage":"${start}","count()":2}`);
    });

    describe('reject', () => {
      const groupNames =
        'stage, urgent, due, due.day, due.week, due.month, due.quarter, due.year, signed_at.day, signed_at.week, signed_at.month, signed_at.quarter, signed_at.year, account_id, owner_id, subject, region, price.currency';
      for (const [query, message] of [
        ['group_by=stag', 'Unknown field "stag" in "group_by". Did you mean "stage"?'],
        ['group_by=name', `Unknown field "name" in "group_by". Available fields: ${groupNames}`],
        [
          'group_by=due.decade',
          'Unknown field "due.decade" in "group_by". Available fields: due, due.day, due.week, due.month, due.quarter, due.year',
        ],
        ['group_by=signed_at', 'group_by needs a period for "signed_at", for example signed_at.month'],
        ['group_by=stage,urgent,due,region', 'group_by must not contain more than 3 names'],
        ['measure=sum(amont)', 'Unknown measure "sum(amont)" in "measure". Did you mean "sum(amount)"?'],
        [
          'measure=count(amount)',
          'Unknown measure "count(amount)" in "measure". Did you mean "sum(amount)"?',
        ],
        [
          'measure=sum(due)',
          'Unknown measure "sum(due)" in "measure". Available measures: min(due), max(due)',
        ],
        ['having[sum(amont)][gt]=1', 'Unknown measure "sum(amont)" in "having". Did you mean "sum(amount)"?'],
        [
          'having[count()]=1',
          'having[count()] is not a condition on a measure. Write it like having[count()][gte]=2.',
        ],
        ['having[count()][ne]=1', 'having[count()][ne] must use one of the operators eq, gt, gte, lt, lte'],
        ['having[count()][gt]=x', 'having[count()][gt] must be a number'],
        ['having[min(due)][gt]=1', 'having[min(due)][gt] must be a date, such as 2026-03-01'],
        ['having[count()][gt]=1&having[count()][gt]=2', 'having[count()][gt] must not be repeated'],
        ['tz=Mars', 'tz must be an IANA time zone, for example Europe/Berlin'],
        ['tz=%2B01:00', 'tz must be an IANA time zone, for example Europe/Berlin'],
        ['amount[gte]=x', 'amount[gte] must be a number'],
        ['stage[gt]=x', 'stage[gt] is not a filter of this list. Available filters: stage[eq], stage[ne]'],
      ] as const)
        test(query, async () => assert.equal(await rejection(query), message));

      test('conditions on measures, of which at most five are named', async () => {
        const query = Array.from({ length: 6 }, (_, index) => `having[sum(x${index})][gt]=1`).join('&');
        const { status, json } = await get(`deals/aggregate?${query}`);
        assert.deepEqual([status, (json.fields as readonly unknown[]).length], [400, 5]);
      });

      test('unknown parameters in strict mode', async () => {
        const call = { headers: { prefer: 'handling=strict' } };
        assert.equal(await rejection('fields=stage', call), 'fields is not a parameter of this operation');
        assert.equal(
          await rejection('groupby=stage', call),
          'groupby is not a parameter of this operation. Did you mean "group_by"?',
        );
        assert.equal(
          await groups('group_by=stage&having[count()][gt]=1&tz=UTC', call),
          '{"stage":"New","count()":2}',
        );
      });

      test('a time zone that the database does not know', () => {
        const resource = instance().resources.find(({ name }) => name === 'deals');
        const cause = Object.assign(new Error('time zone not recognized'), { code: '22023' });
        assert.equal(resource?.operations.aggregate?.violation?.(cause)?.status, 400);
        assert.equal(resource?.operations.aggregate?.violation?.(new Error('lost')), undefined);
      });
    });

    test('exist only for resources that declare them', async () => {
      const comparable = ({ status, text }: Answer) => [
        status,
        text.replace(/"request_id":"[^"]*"/, '').replaceAll('unknown', 'aggregate'),
      ];
      assert.deepEqual(comparable(await get('plain/aggregate')), comparable(await get('plain/unknown')));
      assert.equal((await get('plain/aggregate')).status, 404);
    });
  },
  { sources: await sourcesWith(deals, ...others) },
);
