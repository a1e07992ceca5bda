// `POST /R/query` and `QUERY /R`: lists of the records that meet any combination of conditions.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { everyGrant } from '../../engine/records/index.ts';
import type { Statement } from '../../engine/sql/index.ts';
import { type Answer, type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import { type LimitedCaller, limitedPerson } from '../support/limited.ts';
import { dataOf, numberText } from '../support/reading.ts';
import { sourcesWith } from '../support/sources.ts';

const deals = {
  file: 'deals.yaml',
  text: `
singular: deal
common: all
trash: 30 days
custom_fields: true
fields:
  owner_id: { assignable: true }
  name: { type: string }
  stage: { type: string, renamed_from: phase, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  amount: { type: number, nullable: true }
  price: { type: money, currency: any, nullable: true, renamed_from: cost, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  margin: { type: number, nullable: true, group: finance }
  urgent: { type: boolean }
  due: { type: timestamp, nullable: true }
  subject: { type: reference, to: [accounts, contacts], nullable: true }
  partner_ids: { type: references, to: accounts }
scopes:
  own: owner_id == me
search: [name]
filters:
  - { field: name, operators: [eq, contains] }
  - { field: stage, operators: [eq, ne, in] }
  - { field: amount, operators: [gte, lt, is_null] }
  - { field: price.currency, operators: [eq] }
  - { field: margin, operators: [gte] }
  - { field: urgent, operators: [eq] }
  - { field: due, operators: [gte, lte] }
  - { field: owner_id, operators: [eq] }
  - { field: subject, operators: [eq] }
  - { field: partner_ids, operators: [all] }
`,
};

/** A condition. */
const when = (field: string, op: string, value: unknown) => ({ field, op, value });

onBothDrivers(
  'queries',
  (instance) => {
    let acme: Organization;
    let ann: LimitedCaller & { readonly id: string };
    const accounts: string[] = [];

    const send = (request: string, body: unknown, call: Partial<Call> = {}) =>
      instance().call(request, { key: acme.key, body: JSON.stringify(body), ...call });
    const query = (body: unknown, call: Partial<Call> = {}) => send('POST /api/v1/deals/query', body, call);
    const created = async (resource: string, body: unknown) => {
      const answer = await send(`POST /api/v1/${resource}`, body);
      assert.equal(answer.status, 201, answer.text);
      return String((answer.json as { id: number }).id);
    };
    const namesIn = (answer: Answer) => {
      assert.equal(answer.status, 200, answer.text);
      return (answer.json.data as readonly { readonly name: string }[]).map(({ name }) => name).sort();
    };
    const namesOf = async (where: unknown, call: Partial<Call> = {}) =>
      namesIn(await query({ where }, call)).join(' ');
    /** Returns the errors of a rejected query, by location. */
    const errorsOf = async (body: unknown, call: Partial<Call> = {}) => {
      const { status, json, text } = await query(body, call);
      assert.equal(status, 400, text);
      return Object.fromEntries(
        (json.fields as readonly { field: string; message: string }[]).map(({ field, message }) => [
          field,
          message,
        ]),
      );
    };

    before(async () => {
      acme = await instance().organization('acme');
      ann = await limitedPerson(instance(), acme, ['deals:list:own', 'deals:read:own', 'accounts:*']);
      await instance().call('POST /fields/deals', {
        key: acme.key,
        body: '{"name":"score","type":"integer"}',
      });
      for (const name of ['P', 'Q']) accounts.push(await created('accounts', { name }));
      const [p, q] = accounts.map(Number);
      const rows = [
        {
          name: 'a',
          stage: 'New',
          amount: 10,
          urgent: true,
          due: '2026-01-31T23:30:00Z',
          custom: { score: 1 },
        },
        { name: 'b', stage: 'New', amount: 20, price: { amount: 5, currency: 'EUR' }, partner_ids: [p] },
        { name: 'c', stage: 'Won', amount: null, urgent: true, subject: { resource: 'accounts', id: p } },
        { name: 'd', stage: 'Lost', amount: 30, owner_id: Number(ann.id), partner_ids: [p, q], margin: 7 },
        { name: 'e', stage: '', amount: 5, owner_id: Number(ann.id), due: '2026-02-01T00:00:00Z' },
      ];
      for (const row of rows) await created('deals', row);
    });

    describe('conditions', () => {
      for (const [name, where, expected] of [
        ['one condition', when('stage', 'eq', 'New'), 'a b'],
        ['all', { all: [when('stage', 'eq', 'New'), when('amount', 'gte', 15)] }, 'b'],
        ['any', { any: [when('stage', 'eq', 'Won'), when('amount', 'gte', 30)] }, 'c d'],
        ['not', { not: when('stage', 'eq', 'New') }, 'c d e'],
        ['not of a comparison matches records without a value', { not: when('amount', 'gte', 20) }, 'a c e'],
        [
          'not of all matches records that fail one of the conditions',
          { not: { all: [when('stage', 'eq', 'New'), when('amount', 'gte', 15)] } },
          'a c d e',
        ],
        ['not of any', { not: { any: [when('stage', 'eq', 'New'), when('amount', 'lt', 10)] } }, 'c d'],
        ['not of not', { not: { not: when('amount', 'gte', 20) } }, 'b d'],
        [
          'nested groups',
          {
            all: [
              {
                any: [
                  when('urgent', 'eq', true),
                  { all: [when('amount', 'gte', 5), when('amount', 'lt', 10)] },
                ],
              },
              { not: when('stage', 'eq', 'Won') },
            ],
          },
          'a e',
        ],
        ['lists of values', when('stage', 'in', ['Won', 'Lost']), 'c d'],
        ['equal to one of several values', when('stage', 'eq', ['Won', 'New']), 'a b c'],
        ['an empty value, which a URL would ignore', when('stage', 'eq', ''), 'e'],
        ['is_null', { any: [when('amount', 'is_null', true), when('amount', 'lt', 10)] }, 'c e'],
        ['is_null as text', when('amount', 'is_null', 'false'), 'a b d e'],
        ['a boolean', when('urgent', 'eq', true), 'a c'],
        [
          'dates in ranges of timestamps',
          { all: [when('due', 'gte', '2026-01-31'), when('due', 'lte', '2026-01-31')] },
          'a',
        ],
        ['a currency', when('price.currency', 'eq', 'EUR'), 'b'],
        ['a currency by a former name', when('cost.currency', 'eq', 'EUR'), 'b'],
        ['a custom field', { any: [when('custom.score', 'eq', 1), when('stage', 'eq', 'Won')] }, 'a c'],
        ['a custom field in not', { not: when('custom.score', 'eq', 1) }, 'b c d e'],
        ['a former name', { any: [when('phase', 'eq', 'Won'), { not: when('phase', 'ne', 'Lost') }] }, 'c d'],
        [
          'two conditions on a field',
          { all: [when('stage', 'ne', 'New'), when('stage', 'ne', 'Won')] },
          'd e',
        ],
      ] as const) {
        test(name, async () => assert.equal(await namesOf(where), expected));
      }

      test('references: to one of several resources, in a list, and to the caller', async () => {
        const [p, q] = accounts;
        assert.equal(
          await namesOf({ any: [when('subject', 'eq', `accounts/${p}`), when('stage', 'eq', 'Lost')] }),
          'c d',
        );
        assert.equal(await namesOf({ not: when('subject', 'eq', `accounts/${p}`) }), 'a b d e');
        assert.equal(await namesOf(when('partner_ids', 'all', [Number(p), Number(q)])), 'd');
        assert.equal(
          await namesOf({ any: [when('partner_ids', 'in', p), when('stage', 'eq', 'Won')] }),
          'b c d',
        );
        const mine = { any: [when('owner_id', 'eq', 'me'), when('stage', 'eq', 'Won')] };
        assert.equal(await namesOf(mine, { key: ann.key }), 'd e');
        // In other fields, it is a text like any other.
        const own = await instance().organization('me');
        for (const name of ['me', 'you']) await send('POST /api/v1/deals', { name }, { key: own.key });
        assert.equal(await namesOf(when('name', 'eq', 'me'), { key: own.key }), 'me');
      });

      test('numbers are exact', async () => {
        const { key } = await instance().organization('exact');
        const [lower, higher] = ['9007199254740992', '9007199254740993'];
        for (const amount of [lower, higher]) {
          const body = `{"name":"${amount}","amount":${amount}}`;
          assert.equal((await instance().call('POST /api/v1/deals', { key, body })).status, 201);
        }
        for (const [op, expected] of [
          ['gte', higher],
          ['lt', lower],
        ] as const) {
          const body = `{"where":{"field":"amount","op":"${op}","value":${higher}}}`;
          assert.deepEqual(namesIn(await query({}, { key, body })), [expected], op);
        }
      });

      test('absent or null conditions match every record', async () => {
        for (const body of [{}, { where: null, q: null, cursor: null }])
          assert.deepEqual(namesIn(await query(body)), ['a', 'b', 'c', 'd', 'e']);
      });
    });

    test('QUERY on the path of the list is the same request', async () => {
      const body = {
        where: { any: [when('stage', 'eq', 'Won'), when('amount', 'gte', 30)] },
        sort: '-name',
        fields: 'name',
      };
      const [post, other] = [await query(body), await send('QUERY /api/v1/deals', body)];
      assert.deepEqual(other.json, post.json);
      assert.deepEqual(
        (post.json.data as readonly { name: string }[]).map(({ name }) => name),
        ['d', 'c'],
      );
      const { data: _, ...rest } = post.json;
      assert.deepEqual(rest, { page: 1, per_page: 20, next: null });
      const options = await instance().call('OPTIONS /api/v1/deals', {});
      assert.match(String(options.headers.get('allow')), /\bQUERY\b/);
      assert.equal(options.headers.get('accept-query'), 'application/json');
      for (const request of [
        'GET /api/v1/deals/query',
        'PUT /api/v1/deals/query',
        'QUERY /api/v1/deals/query',
      ]) {
        const { status } = await send(request, {}, request.startsWith('GET') ? { body: undefined } : {});
        assert.equal(status, request.startsWith('GET') ? 404 : 405, request);
      }
    });

    test('search, order, projection and expansion', async () => {
      const { json, status } = await query({
        where: { any: [when('stage', 'eq', 'Won'), when('stage', 'eq', 'New')] },
        sort: 'phase,-amount',
        fields: ['name', 'subject'],
        expand: ['subject'],
      });
      assert.equal(status, 200);
      const data = json.data as readonly { name: string; expanded: { subject: { name: string } | null } }[];
      assert.deepEqual(
        data.map(({ name, expanded }) => [name, expanded.subject?.name]),
        [
          ['b', undefined],
          ['a', undefined],
          ['c', 'P'],
        ],
      );
      for (const sort of ['-phase,name', '-stage,name']) {
        const sorted = await query({ sort, fields: 'name' });
        const names = (sorted.json.data as readonly { name: string }[]).map(({ name }) => name);
        assert.deepEqual(names, ['c', 'a', 'b', 'd', 'e'], sort);
      }
      const former = await query({ fields: ['phase'], q: 'd' });
      assert.deepEqual(
        (former.json.data as readonly Record<string, unknown>[]).map(({ id: _, ...rest }) => rest),
        [{ phase: 'Lost' }],
      );
      const descending = await query({ sort: 'name', dir: 'desc', fields: 'name' });
      assert.deepEqual(
        (descending.json.data as readonly { name: string }[]).map(({ name }) => name),
        ['e', 'd', 'c', 'b', 'a'],
      );
      assert.deepEqual(namesIn(await query({ q: 'A' })), ['a']);
      assert.deepEqual(namesIn(await query({ q: 'A', where: { not: when('stage', 'eq', 'New') } })), []);
    });

    test('the Idempotency-Key is ignored', async () => {
      const headers = { 'idempotency-key': 'k' };
      assert.deepEqual(namesIn(await query({ where: when('stage', 'eq', 'Won') }, { headers })), ['c']);
      const again = await query({ where: when('stage', 'eq', 'Lost') }, { headers });
      assert.deepEqual(namesIn(again), ['d']);
      assert.equal(again.headers.get('idempotency-replayed'), null);
    });

    test('next leads through all records as cursor, for the same conditions only', async () => {
      const { key } = await instance().organization('many');
      const records = Array.from({ length: 45 }, (_, index) => ({
        last_name: `L${index % 7}`,
        status: `S${index % 3}`,
      }));
      await instance().call('POST /api/v1/leads/batch', { key, body: JSON.stringify({ records }) });
      const call = (body: unknown) => send('POST /api/v1/leads/query', body, { key });
      const body = { where: { not: when('status', 'eq', 'S0') }, sort: '-last_name,company' };
      const found: string[] = [];
      const pages: unknown[] = [];
      let cursor: unknown = null;
      do {
        const answer = await call({ ...body, cursor });
        assert.equal(answer.status, 200, answer.text);
        found.push(...dataOf(answer).map(({ id }) => numberText(id)));
        pages.push(answer.json.page);
        cursor = answer.json.next;
        if (cursor !== null) {
          const others = [
            { ...body, where: { not: when('status', 'eq', 'S1') } },
            { ...body, where: { any: [when('status', 'eq', 'S0')] } },
            { ...body, where: when('status', 'eq', 'S0') },
            { ...body, sort: '-last_name' },
          ];
          for (const other of others) assert.equal((await call({ ...other, cursor })).status, 400);
        }
      } while (cursor !== null);
      assert.deepEqual(pages, [1, 2]);
      assert.equal(new Set(found).size, 30);
    });

    test('a body that a URL could contain has the same statement as the URL', async () => {
      const resource = instance().resources.find(({ name }) => name === 'deals') ?? assert.fail();
      const { list, query } = resource.operations;
      const principal = {
        kind: 'key',
        actor: '3',
        name: null,
        organization: '1',
        user: null,
        grants: everyGrant,
      } as const;
      const caller = { principal, requestId: 'r' };
      const where = { all: [when('amount', 'gte', 5), { all: [when('stage', 'eq', 'New')] }] };
      const partsOf = (statement: Statement | undefined) => [
        statement?.name,
        statement?.lane,
        statement?.text,
        statement?.values,
      ];
      const body = partsOf(query.statement(query.plan({ caller, body: { where } })));
      const url = partsOf(list.statement(list.plan({ caller, query: { stage: 'New', 'amount[gte]': '5' } })));
      assert.deepEqual(body, url);
    });

    test('counts, exports and strict mode', async () => {
      const where = { not: when('stage', 'eq', 'New') };
      const counted = await query({ where }, { headers: { prefer: 'count=exact' } });
      assert.equal(counted.headers.get('x-total-count'), '3');
      const estimated = await query({ where }, { headers: { prefer: 'count=estimated' } });
      assert.equal(estimated.headers.get('x-total-count'), '3');
      const csv = await query({ where, fields: 'name', sort: 'name' }, { headers: { accept: 'text/csv' } });
      assert.deepEqual(
        csv.text.split('\r\n').map((line) => line.split(',').at(-1)),
        ['name', 'c', 'd', 'e', ''],
      );
      const strict = { headers: { prefer: 'handling=strict' } };
      assert.deepEqual(await errorsOf({ where, wher: 1, page: 2 }, strict), {
        wher: 'wher is not a property of this body. Did you mean "where"?',
        page: 'page is not supported by queries. Send "next" of the response as "cursor".',
      });
      assert.equal((await query({ where, wher: 2 })).status, 200);
    });

    test('the trash', async () => {
      const id = await created('deals', { name: 'z', stage: 'Won' });
      await instance().call(`DELETE /api/v1/deals/${id}`, { key: acme.key });
      const where = { any: [when('stage', 'eq', 'Won'), when('stage', 'eq', 'Lost')] };
      const trashed = await send('POST /api/v1/deals/query?trashed=true', { where });
      assert.deepEqual(namesIn(trashed), ['z']);
      assert.equal(await namesOf(where), 'c d');
      const denied = await send('POST /api/v1/deals/query?trashed=true', { where }, { key: ann.key });
      assert.equal(denied.status, 403);
    });

    describe('limits', () => {
      test('queries find only records within the scope', async () => {
        assert.equal(await namesOf({ not: when('stage', 'eq', 'x') }, { key: ann.key }), 'd e');
        assert.equal(
          await namesOf({ any: [when('stage', 'eq', 'New'), when('stage', 'eq', 'Lost')] }, { key: ann.key }),
          'd',
        );
      });

      test('a hidden field is rejected like a field that does not exist', async () => {
        const unknown = await errorsOf({ where: { any: [when('nonsense', 'gte', 1)] } }, { key: ann.key });
        const hidden = await errorsOf({ where: { any: [when('margin', 'gte', 1)] } }, { key: ann.key });
        assert.deepEqual(hidden, unknown);
        assert.doesNotMatch(JSON.stringify(hidden), /margin/);
        assert.equal(await namesOf(when('margin', 'gte', 1)), 'd');
        for (const body of [{ sort: 'margin' }, { fields: 'margin' }])
          assert.equal((await query(body, { key: ann.key })).status, 400);
      });

      test('requires the grant list', async () => {
        const reader = await limitedPerson(instance(), acme, ['deals:read', 'deals:create']);
        for (const request of ['POST /api/v1/deals/query', 'QUERY /api/v1/deals'])
          assert.equal((await send(request, {}, { key: reader.key })).status, 403);
        assert.equal((await instance().call('POST /api/v1/deals/query', { body: '{}' })).status, 401);
      });
    });

    describe('rejects', () => {
      const hint =
        'A condition is {"field": …, "op": …, "value": …}. A group is {"all": […]}, {"any": […]} or {"not": …}.';
      const nested = (depth: number): unknown =>
        depth === 0 ? when('stage', 'eq', 'New') : { not: nested(depth - 1) };
      const many = (count: number) => Array.from({ length: count }, () => when('stage', 'eq', 'New'));
      /** Returns a condition with a list of values for each number of values. */
      const lists = (...sizes: readonly number[]) =>
        sizes.map((size) =>
          when(
            'stage',
            'in',
            Array.from({ length: size }, () => 'New'),
          ),
        );
      const fullLists = lists(...Array.from({ length: 10 }, () => 50));
      for (const [name, body, expected] of [
        [
          'an unknown field',
          { where: { all: [when('stgae', 'eq', 'x')] } },
          {
            'where.all[0].field':
              'where.all[0].field must be a field that has a filter. Did you mean "stage"?',
          },
        ],
        [
          'an unknown operator',
          { where: { any: [when('stage', 'eq', 'x'), when('stage', 'nee', 'x')] } },
          { 'where.any[1].op': 'where.any[1].op must be one of eq, ne, in. Did you mean "ne"?' },
        ],
        [
          'an operator that the filter does not have',
          { where: { not: when('amount', 'eq', 5) } },
          { 'where.not.op': 'where.not.op must be one of gte, lt, is_null' },
        ],
        [
          'a value of another type',
          { where: when('amount', 'gte', 'x') },
          { 'where.value': 'where.value must be a number' },
        ],
        [
          'null',
          { where: when('amount', 'gte', null) },
          {
            'where.value':
              'where.value must be a number. Use the operator "is_null" for records without a value.',
          },
        ],
        [
          'null for a field that is never null',
          { where: when('stage', 'eq', null) },
          { 'where.value': 'where.value must be a string' },
        ],
        ['an object', { where: when('stage', 'eq', {}) }, { 'where.value': 'where.value must be a string' }],
        [
          'a missing value',
          { where: { field: 'stage', op: 'eq' } },
          { 'where.value': 'where.value must be a string' },
        ],
        [
          'a list for one value',
          { where: when('amount', 'gte', [1]) },
          { 'where.value': 'where.value must not be a list' },
        ],
        [
          'an empty list',
          { where: when('stage', 'in', []) },
          { 'where.value': 'where.value must contain 1 to 50 values' },
        ],
        [
          'too many values',
          { where: when('stage', 'in', Array.from({ length: 51 }, String)) },
          { 'where.value': 'where.value must contain 1 to 50 values' },
        ],
        [
          'a misspelled key',
          { where: { feild: 'stage', op: 'eq', value: 'x' } },
          { 'where.feild': 'where.feild is not a key of this condition. Did you mean "field"?' },
        ],
        [
          'a group with other keys',
          { where: { all: [when('stage', 'eq', 'x')], any: [] } },
          { 'where.any': `where.any is not a key of this condition. ${hint}` },
        ],
        ['an empty condition', { where: {} }, { where: `where must not be empty. ${hint}` }],
        [
          'a list without a group',
          { where: [when('stage', 'eq', 'x')] },
          { where: `where must be a condition or a group of conditions. ${hint}` },
        ],
        [
          'an empty group',
          { where: { any: [] } },
          { 'where.any': 'where.any must be a list of at least one condition' },
        ],
        [
          'six nested groups',
          { where: nested(6) },
          {
            'where.not.not.not.not.not.not':
              'where.not.not.not.not.not.not must not be nested in 5 or more groups',
          },
        ],
        [
          '51 conditions',
          { where: { any: many(51) } },
          { where: 'where must not contain more than 50 conditions' },
        ],
        [
          '501 values',
          { where: { any: [...fullLists, ...lists(1)] } },
          { where: 'where must not contain more than 500 values' },
        ],
        [
          'a page number',
          { page: 2 },
          { page: 'page is not supported by queries. Send "next" of the response as "cursor".' },
        ],
        [
          'another type of a parameter',
          { sort: 1, dir: ['asc'], fields: [1], q: {}, cursor: 1 },
          {
            sort: 'sort must be a string',
            dir: 'dir must be a string',
            q: 'q must be a string',
            cursor: 'cursor must be a string',
            fields: 'fields must be a string or a list of strings',
          },
        ],
      ] as const) {
        test(name, async () => assert.deepEqual(await errorsOf(body), expected));
      }

      test('nothing at the limits', async () => {
        for (const where of [nested(5), { any: many(50) }, { any: fullLists }])
          assert.equal((await query({ where })).status, 200);
      });

      test('parameters of the list in the URL', async () => {
        const { status, json } = await send('POST /api/v1/deals/query?stage=New&amount[gte]=5', {});
        assert.equal(status, 400);
        assert.deepEqual(
          (json.fields as readonly { field: string }[]).map(({ field }) => field),
          ['stage', 'amount[gte]'],
        );
        const headers = { prefer: 'handling=strict' };
        const strict = await send('POST /api/v1/deals/query?page=2', {}, { headers });
        assert.deepEqual(
          (strict.json.fields as readonly { message: string }[]).map(({ message }) => message),
          ['page is not supported by queries. Send "next" of the response as "cursor".'],
        );
      });

      test('bodies that are too large, empty or not JSON', async () => {
        for (const request of ['POST /api/v1/deals/query', 'QUERY /api/v1/deals']) {
          const { status, json } = await send(request, { q: 'x'.repeat(300_000) });
          assert.deepEqual(
            [status, json.error],
            [413, `The request body is larger than ${256 * 1024} bytes`],
            request,
          );
        }
        assert.equal((await query({}, { body: '' })).status, 400);
        assert.equal((await query({}, { body: '[]' })).status, 400);
        assert.equal((await query({}, { headers: { 'content-type': 'text/plain' } })).status, 400);
      });
    });
  },
  { sources: await sourcesWith(deals) },
);
