// Plans: requests as data, validated without a database.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compileResource, type Resource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { excerpt, HttpError } from '../../engine/errors.ts';
import { isGroup } from '../../engine/query/filters.ts';
import type { Query } from '../../engine/query/part.ts';
import type { Body } from '../../engine/records/body.ts';
import { noGrants } from '../../engine/records/index.ts';
import type { OperationInput } from '../../engine/records/operation.ts';
import { everyType } from '../support/every-type.ts';
import { sourcesWith } from '../support/sources.ts';

const resources = compileResource(checkSources(await sourcesWith(...everyType)), '/api', []);
const resource = (name: string): Resource => {
  const found = resources.find((one) => one.name === name);
  assert.ok(found);
  return found;
};
const [leads, cases, loose, tight] = ['leads', 'cases', 'loose', 'tight'].map(resource) as [
  Resource,
  Resource,
  Resource,
  Resource,
];

const principal = {
  kind: 'key',
  actor: '3',
  name: null,
  organization: '42',
  user: '7',
  grants: noGrants,
} as const;
const input = (query: Query = {}, strict = false): OperationInput => ({
  caller: { principal, requestId: 'r' },
  query,
  strict,
});
const listPlan = ({ operations }: Resource, request: OperationInput) => operations.list.plan(request);
const readPlan = ({ operations }: Resource, id: string, request: OperationInput) =>
  operations.read.plan({ ...request, id });
const removePlan = ({ operations }: Resource, id: string, request: OperationInput) =>
  operations.remove.plan({ ...request, id });
const createPlan = ({ operations }: Resource, body: Body, request: OperationInput) =>
  operations.create.plan({ ...request, body });
const replacePlan = ({ operations }: Resource, id: string, body: Body, request: OperationInput) =>
  operations.replace.plan({ ...request, id, body });
/** Returns the values that a create statement binds. */
const created = (body: Body, request: OperationInput = input()) =>
  leads.operations.create.statement(createPlan(leads, body, request))?.values ?? [];

/** Returns the status, fields and message with which a plan rejects a request. */
function refusal(plan: () => unknown): { status: number; fields: string[]; message: string } {
  try {
    plan();
  } catch (error) {
    assert.ok(error instanceof HttpError, String(error));
    const fields = error.extra.fields?.map(({ field }) => field) ?? [];
    return { status: error.status, fields, message: error.message };
  }
  return { status: 200, fields: [], message: '' };
}

test('entity tags stay valid across upgrades, because a definition always has the same mark', () => {
  const { mark } = leads.context.projection;
  assert.equal(mark, '57b8d962', 'a new mark is only correct if the columns or SQL of leads have changed');
});

describe('page', () => {
  const page = (given: string) => {
    const plan = listPlan(leads, input({ page: given }));
    return plan.parsedQuery.page;
  };

  for (const [given, expected] of [
    ['1', { page: 1n, offset: 0, depth: 'first' }],
    ['2', { page: 2n, offset: 20, depth: 'shallow' }],
    ['5', { page: 5n, offset: 80, depth: 'shallow' }],
    ['6', { page: 6n, offset: 100, depth: 'deep' }],
    ['0', { page: 1n, offset: 0, depth: 'first' }],
    ['-0', { page: 1n, offset: 0, depth: 'first' }],
    ['-1', { page: 1n, offset: 0, depth: 'first' }],
    [`-1${'0'.repeat(30)}`, { page: 1n, offset: 0, depth: 'first' }],
    ['000', { page: 1n, offset: 0, depth: 'first' }],
    ['007', { page: 7n, offset: 120, depth: 'deep' }],
    ['1000000000000', { page: 1000000000000n, offset: 19999999999980, depth: 'deep' }],
    ['1000000000001', { page: 1000000000001n, offset: undefined, depth: 'deep' }],
    ['9007199254740993', { page: 9007199254740993n, offset: undefined, depth: 'deep' }],
    ['9223372036854775808', { page: 9223372036854775808n, offset: undefined, depth: 'deep' }],
    [`1${'0'.repeat(30)}`, { page: 10n ** 30n, offset: undefined, depth: 'deep' }],
    [`1${'0'.repeat(400)}`, { page: 10n ** 400n, offset: undefined, depth: 'deep' }],
  ] as const) {
    test(given.length > 40 ? `a number of ${given.length} digits` : given, () => {
      assert.deepEqual(page(given), expected);
    });
  }

  test('uses the first page if page is absent', () =>
    assert.equal(listPlan(leads, input()).parsedQuery.page.page, 1n));

  test('uses the first page if page is empty', () =>
    assert.equal(listPlan(leads, input({ page: '' })).parsedQuery.page.page, 1n));

  for (const given of [
    ' ',
    '1.0',
    '1.5',
    '+1',
    '1e3',
    '0x10',
    ' 1',
    '1 ',
    '١',
    'NaN',
    'null',
    '--1',
    '1;drop',
  ]) {
    test(`rejects "${given}", which is not an integer`, () => {
      assert.deepEqual(
        refusal(() => page(given)),
        {
          status: 400,
          fields: ['page'],
          message: 'page must be an integer',
        },
      );
    });
  }

  test('rejects a repeated page', () => {
    assert.equal(
      refusal(() => listPlan(leads, input({ page: ['1', '2'] }))).message,
      'page must not be repeated',
    );
  });

  test('plans any integer with exact arithmetic', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }), fc.nat(5), (number, zeros) => {
        const text = `${number < 0n ? '-' : ''}${'0'.repeat(zeros)}${number < 0n ? -number : number}`;
        const expected = number < 1n ? 1n : number;
        const plan = listPlan(leads, input({ page: text }));
        const { list } = leads.operations;
        const { offset } = plan.parsedQuery.page;
        assert.equal(plan.parsedQuery.page.page, expected);
        assert.equal(offset === undefined, expected > 10n ** 12n);
        if (offset !== undefined) assert.equal(BigInt(offset), (expected - 1n) * 20n);
        assert.equal(list.statement(plan) === undefined, offset === undefined, 'no statement is needed');
        const { page, json, next } = list.result(plan, []);
        assert.deepEqual([page, json, next], [expected, '', undefined]);
      }),
    );
  });
});

describe('order', () => {
  for (const [name, query, sort, direction] of [
    ['accounts', {}, 'name', 'asc'],
    ['contacts', {}, 'last_name', 'asc'],
    ['leads', {}, 'created_at', 'desc'],
    ['opportunities', {}, 'created_at', 'desc'],
    ['cases', {}, 'created_at', 'desc'],
    ['leads', { dir: 'asc' }, 'created_at', 'asc'],
    ['leads', { dir: 'DESC' }, 'created_at', 'desc'],
    ['leads', { sort: 'created_at' }, 'created_at', 'desc'],
    ['leads', { sort: 'company' }, 'company', 'asc'],
    ['leads', { sort: 'company', dir: 'Desc' }, 'company', 'desc'],
    ['leads', { sort: 'id' }, 'id', 'asc'],
    ['leads', { sort: 'meta_ad_id' }, 'meta_ad_id', 'asc'],
    ['accounts', { dir: 'desc' }, 'name', 'desc'],
    ['cases', { sort: 'subject', dir: 'asc' }, 'created_at', 'desc'],
    ['cases', { sort: 'nonsense', dir: 'up' }, 'created_at', 'desc'],
    ['leads', { sort: '', dir: '' }, 'created_at', 'desc'],
    ['leads', { sort: 'company', dir: '' }, 'company', 'asc'],
  ] as const) {
    test(`${name} ${JSON.stringify(query)} → ${sort} ${direction}`, () => {
      const plan = listPlan(resource(name), input(query));
      assert.deepEqual(
        [plan.parsedQuery.sort.field.name, plan.parsedQuery.sort.direction],
        [sort, direction],
      );
    });
  }

  const names = leads.definition.fields.map(({ name }) => name).join(', ');
  const isNear = (sort: string | readonly string[]) => typeof sort === 'string' && /^company\W?$/i.test(sort);
  for (const sort of [
    'nonsense',
    'Company',
    'company ',
    'company;',
    '__proto__',
    'constructor',
    'password_hash',
    'company desc',
    'account_name',
    ['company', 'phone'],
  ]) {
    test(`rejects sort=${sort} and names the accepted values`, () => {
      assert.deepEqual(
        refusal(() => listPlan(leads, input({ sort }))),
        {
          status: 400,
          fields: ['sort'],
          message: `sort must be one of ${names}${isNear(sort) ? '. Did you mean "company"?' : ''}`,
        },
      );
    });
  }

  for (const dir of ['up', 'asc ', 'ascending', ['asc', 'desc']]) {
    test(`rejects dir=${dir}`, () => {
      assert.equal(refusal(() => listPlan(leads, input({ dir }))).message, 'dir must be asc or desc');
    });
  }
});

describe('filters', () => {
  const filters = (of: Resource, query: Query) =>
    listPlan(of, input(query)).parsedQuery.filters.map((node) =>
      isGroup(node) ? [] : [node.field.name, ...node.values],
    );

  for (const [of, query, expected] of [
    [leads, {}, []],
    [leads, { status: 'New' }, [['status', 'New']]],
    [leads, { status: '' }, []],
    [leads, { status: ['', ''] }, []],
    [leads, { status: ['', 'New', ''] }, [['status', 'New']]],
    [
      leads,
      { rating: ['Hot', 'Cold'], status: 'x' },
      [
        ['status', 'x'],
        ['rating', 'Hot', 'Cold'],
      ],
    ],
    [leads, { status: "'; drop table leads; --" }, [['status', "'; drop table leads; --"]]],
    [leads, { company: 'Acme', stage: 'x', organization_id: '43', organization: '43' }, []],
    [cases, { status: 'New', sort: 'x', dir: 'y' }, [['status', 'New']]],
    [loose, { n_int64: '9223372036854775807' }, [['n_int64', '9223372036854775807']]],
    [loose, { n_number: '0.10' }, [['n_number', '0.10']]],
  ] as const) {
    test(`${of.name} ${JSON.stringify(query)}`, () => assert.deepEqual(filters(of, query), expected));
  }

  test('reports wrong values together with all other wrong parameters', () => {
    const query = {
      page: 'x',
      sort: 'y',
      dir: 'z',
      n_int64: '9223372036854775808',
      n_boolean: ['true', 'yes'],
    };
    assert.deepEqual(refusal(() => listPlan(loose, input(query))).fields, [
      'page',
      'sort',
      'dir',
      'n_int64',
      'n_boolean',
    ]);
  });

  test('uses the caller’s organization, whatever the parameters are', () => {
    fc.assert(
      fc.property(
        fc.dictionary(
          fc.constantFrom('org', 'organization', 'organization_id', 'status', '__proto__'),
          fc.string(),
        ),
        (query) => {
          const safe = Object.fromEntries(
            Object.entries(query).filter(([, value]) => value.isWellFormed() && !value.includes('\0')),
          );
          const plan = listPlan(leads, input(safe));
          assert.equal(plan.organization, '42');
          assert.equal(leads.operations.list.statement(plan)?.values[0], '42');
        },
      ),
    );
  });
});

describe('IDs in a path', () => {
  for (const id of ['0', '1', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808']) {
    test(`accepts ${id}`, () => {
      const plan = readPlan(leads, id, input());
      assert.deepEqual(leads.operations.read.statement(plan)?.values, ['42', id]);
    });
  }
  for (const id of [
    '',
    ' 1',
    '1 ',
    '+1',
    '01',
    '-0',
    '1.0',
    '1e3',
    '0x10',
    '９',
    'abc',
    '1;',
    '9223372036854775808',
    '-9223372036854775809',
    '9'.repeat(5000),
    '__proto__',
  ]) {
    test(`rejects "${id.slice(0, 30)}" as missing, for every method`, () => {
      for (const plan of [
        () => readPlan(leads, id, input()),
        () => removePlan(leads, id, input()),
        () => replacePlan(leads, id, {}, input()),
      ]) {
        assert.deepEqual(refusal(plan), {
          status: 404,
          fields: [],
          message:
            id === ''
              ? 'Path not found. Remove the trailing slash.'
              : `Lead not found in your organization. "${excerpt(id)}" is not an ID: IDs are 64-bit integers.`,
        });
      }
    });
  }

  test('accepts exactly the 64-bit integers in canonical form', () => {
    const near = fc.tuple(
      fc.constantFrom(0n, 2n ** 31n, 2n ** 53n, 2n ** 63n, -(2n ** 63n)),
      fc.bigInt(-3n, 3n),
    );
    const integers = fc.oneof(
      fc.bigInt(),
      near.map(([base, delta]) => base + delta),
    );
    fc.assert(
      fc.property(integers, (integer) => {
        const exists = integer >= -(2n ** 63n) && integer < 2n ** 63n;
        const { status } = refusal(() => readPlan(leads, String(integer), input()));
        assert.equal(status, exists ? 200 : 404);
      }),
    );
    fc.assert(
      fc.property(fc.string(), (text) => {
        const canonical = /^-?\d+$/.test(text) && String(BigInt(text)) === text;
        if (!canonical) assert.equal(refusal(() => readPlan(leads, text, input())).status, 404);
      }),
    );
  });
});

describe('writes', () => {
  test('binds a create to the caller’s organization and user', () => {
    const plan = createPlan(leads, { first_name: 'Ada', organization_id: 43, owner_id: 8, id: 9 }, input());
    assert.deepEqual([plan.organization, plan.caller.principal.user], ['42', '7']);
    const values = leads.operations.create.statement(plan)?.values ?? [];
    assert.deepEqual(values.slice(0, 3), ['42', '7', 'Ada']);
    assert.ok(!values.includes('43') && !values.includes('8') && !values.includes('9'));
  });

  test('writes every writable column in a replace, with defaults for absent fields', () => {
    const plan = replacePlan(leads, '5', { lead_score: 7 }, input());
    const values = leads.operations.replace.statement(plan)?.values ?? [];
    assert.deepEqual(values.slice(0, 3), ['42', '5', '7']);
    assert.deepEqual(
      values.slice(3),
      created({ lead_score: 7 }).slice(2),
      'the same as a create with this body',
    );
    assert.ok(values.includes('Open - Not Contacted'));
  });

  test('writes no user for a key without one', () => {
    const nobody = { ...input(), caller: { principal: { ...principal, user: null }, requestId: 'r' } };
    assert.equal(created({}, nobody)[1], null);
  });

  test('validates the body before the ID', () => {
    assert.equal(refusal(() => replacePlan(leads, 'x', { lead_score: 'x' }, input())).status, 400);
  });

  test('ignores keys that every object inherits', () => {
    const body = JSON.parse(
      '{"__proto__":{"first_name":"x"},"constructor":1,"toString":2,"hasOwnProperty":3}',
    );
    assert.deepEqual(created(body), created({}));
  });

  test('reports missing required fields', () => {
    const required = tight.definition.fields.filter((field) => field.required).map(({ name }) => name);
    assert.deepEqual(refusal(() => createPlan(tight, {}, input())).fields.toSorted(), required.toSorted());
    assert.deepEqual(
      refusal(() => replacePlan(tight, '1', {}, input())).fields.toSorted(),
      required.toSorted(),
    );
  });
});

describe('strict', () => {
  const body = { first_name: 'Ada', firstname: 'x', owner_id: 1, lead_score: 'x', __proto: 1 };
  const query = { org: 'acme', page: '1', status: '', rating: 'Hot', stage: 'x', nonsense: '1' };

  test('reports everything that would be ignored, and invalid values', () => {
    const plan = () => createPlan(leads, body, input({ org: 'x', page: '1' }, true));
    assert.deepEqual(refusal(plan).message.split('; '), [
      'page is not a parameter of this operation',
      'firstname is not a field of this resource. Did you mean "first_name"?',
      'owner_id is read-only',
      '__proto is not a field of this resource',
      'lead_score must be a 64-bit integer',
    ]);
  });
  test('ignores the same input without strict', () => {
    const { lead_score: _, ...rest } = body;
    assert.deepEqual(created(rest, input({ nonsense: '1' })), created({ first_name: 'Ada' }));
    assert.equal(listPlan(leads, input(query)).parsedQuery.filters.length, 1);
  });
  test("accepts only a list's own parameters", () => {
    assert.deepEqual(refusal(() => listPlan(leads, input(query, true))).fields, ['stage', 'nonsense']);
    assert.deepEqual(
      refusal(() => listPlan(cases, input({ sort: 'id', dir: 'asc', status: '' }, true))).fields,
      ['sort', 'dir'],
    );
  });
  test('accepts only org for one record', () => {
    assert.deepEqual(refusal(() => readPlan(leads, '1', input({ page: '1', org: 'x' }, true))).fields, [
      'page',
    ]);
    assert.equal(readPlan(leads, '1', input({ org: 'x' }, true)).id, '1');
  });
});
