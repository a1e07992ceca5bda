// A query returns exactly the records that meet its conditions, compared with their evaluation in JavaScript, and the list of
// a URL is the same as the query into which the client converts it.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import { fromQuery, toQuery } from '../../client/src/query.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const items = {
  file: 'items.yaml',
  text: `
singular: item
common: [id, organization_id]
fields:
  label: { type: string, nullable: true }
  size: { type: integer, nullable: true }
  weight: { type: number, nullable: true }
  day: { type: date, nullable: true }
  done: { type: boolean, nullable: true }
  parent_id: { type: reference, to: items, nullable: true }
filters:
  - { field: label, operators: [eq, ne, in, gt, gte, lt, lte, starts_with, contains, is_null] }
  - { field: size, operators: [eq, ne, in, gt, gte, lt, lte, is_null] }
  - { field: weight, operators: [eq, ne, gt, lte, is_null] }
  - { field: day, operators: [eq, gte, lt, is_null] }
  - { field: done, operators: [eq, ne, is_null] }
  - { field: parent_id, operators: [eq, ne, is_null] }
`,
};

type Value = string | number | boolean;
type Item = Readonly<Record<string, Value | null>>;
interface Leaf {
  readonly field: string;
  readonly op: string;
  readonly value: Value | readonly Value[];
}
type Condition =
  | Leaf
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | { readonly not: Condition };

const values: Readonly<Record<string, readonly Value[]>> = {
  label: ['', 'a', 'ab', 'b', 'B', 'ä', '%', '_a', 'p'.repeat(120), `${'p'.repeat(120)}q`],
  size: [-1, 0, 1, 2, 10],
  weight: [-0.5, 0, 1.25, 3],
  day: ['2026-01-31', '2026-02-01', '2026-02-28'],
  done: [true, false],
  parent_id: [1, 2, 3],
};
const operators: Readonly<Record<string, readonly string[]>> = {
  label: ['eq', 'ne', 'in', 'gt', 'gte', 'lt', 'lte', 'starts_with', 'contains', 'is_null'],
  size: ['eq', 'ne', 'in', 'gt', 'gte', 'lt', 'lte', 'is_null'],
  weight: ['eq', 'ne', 'gt', 'lte', 'is_null'],
  day: ['eq', 'gte', 'lt', 'is_null'],
  done: ['eq', 'ne', 'is_null'],
  parent_id: ['eq', 'ne', 'is_null'],
};

const leaf: Arbitrary<Leaf> = fc.constantFrom(...Object.keys(values)).chain((field) =>
  fc.constantFrom(...(operators[field] ?? [])).chain((op) => {
    const value = fc.constantFrom(...(values[field] ?? []));
    const several = fc.array(value, { minLength: 1, maxLength: 3 });
    const operand: Arbitrary<Leaf['value']> =
      op === 'is_null' ? fc.boolean() : ['eq', 'ne', 'in'].includes(op) ? fc.oneof(value, several) : value;
    return operand.map((chosen) => ({ field, op, value: chosen }));
  }),
);

const conditions: Arbitrary<Condition> = fc.letrec<{ node: Condition }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 4, depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('node'), { minLength: 1, maxLength: 3 }).map((all) => ({ all })),
    fc.array(tie('node'), { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
    tie('node').map((not) => ({ not })),
  ),
})).node;

/** Compares as PostgreSQL does with the collation C: strings by their bytes, false before true. */
const compare = (a: Value, b: Value): number =>
  typeof a === 'string' && typeof b === 'string'
    ? Buffer.compare(Buffer.from(a), Buffer.from(b))
    : Number(a) - Number(b);

/** Returns whether a record meets a condition. A record without a value meets only `ne` and `is_null`. */
function meets(item: Item, condition: Condition): boolean {
  if ('all' in condition) return condition.all.every((each) => meets(item, each));
  if ('any' in condition) return condition.any.some((each) => meets(item, each));
  if ('not' in condition) return !meets(item, condition.not);
  const { field, op, value: operand } = condition;
  const value = item[field] ?? null;
  const operands = [operand].flat() as readonly Value[];
  if (op === 'is_null') return (value === null) === operand;
  const isEqual = value !== null && operands.some((each) => compare(value, each) === 0);
  if (op === 'ne') return !isEqual;
  const [first = ''] = operands;
  if (value === null) return false;
  switch (op) {
    case 'gt':
      return compare(value, first) > 0;
    case 'gte':
      return compare(value, first) >= 0;
    case 'lt':
      return compare(value, first) < 0;
    case 'lte':
      return compare(value, first) <= 0;
    case 'starts_with':
      return String(value).startsWith(String(first));
    case 'contains':
      return String(value).includes(String(first));
    default:
      return isEqual;
  }
}

const count = 18;
const path = '/api/v1/items';

onBothDrivers(
  'queries',
  (instance) => {
    let organization: Organization;
    let stored: readonly (Item & { readonly id: number })[];
    const idsIn = (data: unknown) => (data as readonly { readonly id: number }[]).map(({ id }) => id);

    before(async () => {
      organization = await instance().organization('alpha');
      const records = Array.from({ length: count }, (_, index) =>
        Object.fromEntries(
          // Each field has another number of values, so that most combinations occur, and a null every few records.
          Object.entries(values).map(([field, choices], position) => [
            field,
            (index + position) % 4 === 0 || (field === 'parent_id' && index < 3)
              ? null
              : choices[index % choices.length],
          ]),
        ),
      );
      for (const chunk of [records.slice(0, 3), records.slice(3)]) {
        const body = JSON.stringify({ records: chunk });
        const { status, text } = await instance().call(`POST ${path}/batch`, { key: organization.key, body });
        assert.equal(status, 200, text);
      }
      const { json } = await instance().call(`GET ${path}?sort=id`, { key: organization.key });
      stored = json.data as typeof stored;
      assert.equal(stored.length, count);
    });

    test('return the records that meet any combination of conditions', async () => {
      await fc.assert(
        fc.asyncProperty(conditions, async (where) => {
          const body = JSON.stringify({ where, sort: 'id', fields: 'id' });
          const { status, json, text } = await instance().call(`POST ${path}/query`, {
            key: organization.key,
            body,
          });
          assert.equal(status, 200, text);
          const expected = stored.filter((item) => meets(item, where)).map(({ id }) => id);
          assert.deepEqual(idsIn(json.data), expected, body);
        }),
        { numRuns: 150 },
      );
    });

    test('are the same as the list of a URL', async () => {
      const sorts = fc.constantFrom(
        '',
        'sort=size,-label',
        'sort=-day',
        'sort=label&dir=desc',
        'dir=desc',
        'fields=size',
      );
      await fc.assert(
        fc.asyncProperty(fc.array(leaf, { maxLength: 3 }), sorts, async (leaves, sort) => {
          const parameters = new URLSearchParams(sort);
          for (const { field, op, value } of leaves) {
            const name = op === 'eq' ? field : `${field}[${op}]`;
            // Only some filters can be sent with several values.
            if (parameters.has(name)) continue;
            for (const each of [value].flat()) parameters.append(name, String(each));
          }
          const { key } = organization;
          const list = await instance().call(`GET ${path}?${parameters}`, { key });
          assert.equal(list.status, 200, list.text);
          const body = toQuery(`?${parameters}`);
          const query = await instance().call(`POST ${path}/query`, { key, body: JSON.stringify(body) });
          assert.deepEqual(query.json, { ...list.json, next: null }, String(parameters));
          const again = await instance().call(`GET ${path}?${fromQuery(body)}`, { key });
          assert.deepEqual(again.json, list.json, String(parameters));
        }),
        { numRuns: 50 },
      );
    });
  },
  { sources: await sourcesWith(items) },
);

test('conditions that a URL cannot contain are not converted', () => {
  const one = { field: 'size', op: 'eq', value: 1 };
  for (const where of [
    { any: [one] },
    { not: one },
    { all: [one, { not: one }] },
    { all: [one, one] },
    { field: 'label', op: 'eq', value: '' },
    { field: 'label', op: 'in', value: ['a', ''] },
    { field: 'label', op: 'in', value: [] },
    { field: 'label', op: 'eq', value: null },
  ])
    assert.equal(fromQuery({ where }), undefined);
  assert.equal(
    String(fromQuery({ where: { all: [one, { all: [{ ...one, op: 'gt' }] }] } })),
    'size=1&size%5Bgt%5D=1',
  );
  assert.deepEqual(toQuery('https://crm.example/api/v1/items?page=2&size=&trashed=true&q=a'), { q: 'a' });
  assert.deepEqual(toQuery('?label=&label=b&sort=-size&sort=label&org=a&cursor=c'), {
    where: { field: 'label', op: 'eq', value: 'b' },
    sort: '-size,label',
  });
});
