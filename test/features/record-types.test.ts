// The types that "crm types" writes describe the values that hooks receive.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { typesSource } from '../../app/commands/types-command.ts';
import type { ModuleCode } from '../../engine/records/index.ts';
import { everyType } from '../support/every-type.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';

const former = {
  file: 'former.yaml',
  text: 'retired: true\ncommon: all\nfields:\n  name: { type: string }\n',
};
const items = {
  file: 'items.yaml',
  text: `
singular: item
common: all
fields:
  size: { type: integer, renamed_from: length, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  gone: { type: string, retired: true }
`,
};
const things = {
  file: 'things.yaml',
  text: `
singular: thing
common: all
fields:
  name: { type: string, required: true, description: The name without */ or */ in it. }
  level: { type: string, enum: [low, high], closed: true }
  color: { type: string, suggested: [red] }
  margin: { type: money, currency: any, nullable: true, group: finance }
  loose_ids: { type: references, to: loose }
  about: { type: reference, to: [things, loose], nullable: true }
  words: { type: list, of: string }
  data: { type: json, nullable: true }
  total: { type: integer, read_only: true, nullable: true }
  ratio: { type: number, nullable: true }
  seen_on: { type: date, nullable: true }
  seen_at: { type: timestamp, nullable: true }
  number: { type: string, sequence: "T-{0000}" }
  doubled: { type: integer, computed: total * 2 }
  parent_id: { type: reference, to: things, nullable: true }
  parent_name: { type: joined, through: parent_id, show: [name] }
  parts: { type: integer, rollup: { count: true, of: things, by: parent_id, unscoped: true } }
custom_fields: true
scopes: { low: level == "low" }
`,
};
const sources = await sourcesWith(...everyType, things, items, former);
const written: { readonly resource: string; readonly values: Readonly<Record<string, unknown>> }[] = [];
const noteOf = (resource: string) => ({
  beforeWrite: ({ previous }: { readonly previous: Readonly<Record<string, unknown>> | undefined }) => {
    if (previous !== undefined) written.push({ resource, values: previous });
    return undefined;
  },
});
const modules: readonly ModuleCode[] = [
  { name: 'notes-values', hooks: { loose: noteOf('loose'), things: noteOf('things') } },
  {
    name: 'returns-values',
    hooks: {
      things: {
        beforeWrite: ({ input }) => (input?.name === 'returned' ? { ...input, ...returned } : undefined),
      },
    },
  },
];
/** Values of types that JSON does not have, and numbers that JavaScript would round. */
const returned = {
  ratio: '12345678901234567890.10',
  margin: { amount: '12345678901234567890.12', currency: 'EUR' },
  seen_on: new Date('2026-03-01T23:30:00Z'),
  seen_at: new Date('2026-03-01T23:30:00Z'),
  data: { large: 9_007_199_254_740_993n, list: [9_007_199_254_740_995n] },
};

/** Returns the members of an interface: the types by name. A name ends with "?" if the member is optional. */
function membersOf(source: string, name: string): Readonly<Record<string, string>> {
  const [, body = ''] =
    new RegExp(`export interface ${name} \\{\n([\\s\\S]*?)\n\\}`).exec(source) ?? assert.fail(name);
  return Object.fromEntries(
    [...body.matchAll(/^ {2}readonly (\w+\??): (.*);$/gm)].map(([, member = '', type = '']) => [
      member,
      type,
    ]),
  );
}

/** Returns whether a value has a type. */
function matches(value: unknown, type: string): boolean {
  const list = /^readonly (?:\((.*)\)|(\w+))\[\]$/.exec(type);
  if (list !== null)
    return Array.isArray(value) && value.every((element) => matches(element, list[1] ?? list[2] ?? ''));
  const object = /^\{ (.*) \}( \| null)?$/.exec(type);
  if (object !== null) {
    if (value === null) return object[2] !== undefined;
    const members = (object[1] ?? '')
      .split('; ')
      .map((member) => /^readonly (\w+): (.*)$/.exec(member) ?? []);
    return (
      typeof value === 'object' &&
      members.every(([, name = '', member = '']) => matches(Reflect.get(value, name), member))
    );
  }
  return type.split(' | ').some((one) => {
    if (one === 'unknown') return true;
    if (one === 'null') return value === null;
    if (one.startsWith('"')) return value === JSON.parse(one);
    if (one === '(string & {})') return typeof value === 'string';
    if (one.startsWith('Readonly<')) return typeof value === 'object' && value !== null;
    return typeof value === one;
  });
}

onBothDrivers(
  'crm types',
  (instance) => {
    let acme: Organization;
    let source: string;
    before(async () => {
      acme = await instance().organization('acme');
      source = typesSource(instance().resources);
    });
    const call = async (request: string, body: unknown) => {
      const answer = await instance().call(request.replace(' ', ' /api/v1/'), { key: acme.key, body });
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };

    test('describes the values of every type that hooks receive', async () => {
      const { id: loose } = await call('POST loose', { n_int64: 1, n_number: 1.5 });
      const { id } = await call('POST things', {
        ...{ name: 'a', level: 'low', color: 'green', margin: { amount: 1.5, currency: 'EUR' } },
        ...{ loose_ids: [loose], about: { resource: 'loose', id: loose }, words: ['x'], data: { a: 1 } },
      });
      written.length = 0;
      await call(`PATCH loose/${loose}`, {});
      await call(`PATCH things/${id}`, {});
      await call('POST things', { name: 'b' });
      for (const [resource, name] of [
        ['loose', 'Loose'],
        ['things', 'Thing'],
      ] as const) {
        const values = written.find((each) => each.resource === resource)?.values ?? assert.fail(resource);
        const members = membersOf(source, name);
        assert.deepEqual(
          Object.keys(values).sort(),
          Object.keys(members)
            .map((member) => member.replace('?', ''))
            .sort(),
        );
        for (const [member, type] of Object.entries(members))
          assert.ok(
            matches(values[member.replace('?', '')], type),
            `${resource}.${member}: ${type}: ${String(values[member.replace('?', '')])}`,
          );
      }
      const { about, margin, level } = written.find((each) => each.resource === 'things')?.values ?? {};
      assert.deepEqual(about, { resource: 'loose', id: BigInt(String(loose)) });
      assert.deepEqual(margin, { amount: '1.5', currency: 'EUR' });
      assert.equal(level, 'low');
    });

    test('values that hooks return are stored exactly, and dates as their time or their day in UTC', async () => {
      const { id } = await call('POST things', { name: 'returned' });
      const { text } = await instance().call(`GET /api/v1/things/${id}`, { key: acme.key });
      for (const [name, value] of [
        ['ratio', '12345678901234567890.10'],
        ['margin', '{"amount":12345678901234567890.12,"currency":"EUR"}'],
        ['seen_on', '"2026-03-01"'],
        ['seen_at', '"2026-03-01T23:30:00Z"'],
      ] as const)
        assert.ok(text.includes(`"${name}":${value}`), `${name}: ${text}`);
      assert.match(text, /"large":\s?9007199254740993\b/);
      assert.match(text, /"list":\s?\[9007199254740995\]/);
      const valid = { ...returned };
      returned.seen_on = new Date(Number.NaN);
      const answer = await instance().call('POST /api/v1/things', {
        ...{ key: acme.key, body: { name: 'returned' } },
      });
      Object.assign(returned, valid);
      assert.deepEqual([answer.status, answer.json.code], [400, 'invalid_input'], answer.text);
      assert.match(answer.text, /seen_on must be a date/);
    });

    test('names known values, optional fields, inputs and grants', () => {
      const record = membersOf(source, 'Thing');
      const input = membersOf(source, 'ThingInput');
      assert.equal(record.level, '"low" | "high" | ""');
      assert.equal(record.color, '"red" | (string & {})');
      assert.equal(record['margin?'], '{ readonly amount: string; readonly currency: string } | null');
      assert.equal(record.id, 'bigint');
      assert.equal(input.name, 'string');
      assert.equal(input['loose_ids?'], 'readonly (bigint | number)[]');
      assert.equal(input['total?'], 'number | null', 'modules can write read-only fields');
      for (const name of ['id', 'created_at', 'number', 'doubled', 'parent_name', 'parts']) {
        assert.ok(name in record, name);
        assert.ok(!(name in input) && !(`${name}?` in input), `the server sets or calculates ${name}`);
      }
      assert.ok(source.includes('/** The name without *\\/ or *\\/ in it. */'));
      assert.doesNotMatch(source, /former/, 'retired resources are omitted');
      assert.equal(membersOf(source, 'Item').size, 'number');
      assert.deepEqual(
        Object.keys(membersOf(source, 'ItemInput')).filter((name) => /size|length|gone/.test(name)),
        ['size?'],
      );
      assert.doesNotMatch(source, /length|gone/, 'former names and retired fields are omitted');
      for (const grant of ['things:create', 'things:update:low', 'things.finance:read'])
        assert.match(source, new RegExp(`^  \\| "${grant}"`, 'm'));
    });
  },
  { sources, modules },
);
