// Lists: pages, sort orders and filters, for every field of every resource.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import type { Field } from '../../engine/fields/field.ts';
import { maxFilterValues } from '../../engine/query/filters.ts';
import { deepPage } from '../../engine/query/page.ts';
import { type Answer, type Call, type Organization, onBothDrivers } from '../support/instance.ts';
import {
  compareValues,
  dataOf,
  type ExactRecord,
  matches,
  numberText,
  objectText,
  walk,
} from '../support/reading.ts';
import { definitions, isStored, kindOf, make, pathOf, writable } from '../support/records.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';
import { recordStatements } from '../support/statements.ts';

/** Default orders: the orders in the contract, and the order chosen for cases. */
const defaultOrders: Readonly<Record<string, readonly [field: string, direction: 'asc' | 'desc']>> = {
  accounts: ['name', 'asc'],
  contacts: ['last_name', 'asc'],
  leads: ['created_at', 'desc'],
  opportunities: ['created_at', 'desc'],
  cases: ['created_at', 'desc'],
};
/** Filterable fields: the fields in the contract, and additional fields. */
const filters: Readonly<Record<string, readonly string[]>> = {
  accounts: ['name', 'website'],
  contacts: ['email', 'phone', 'account_id'],
  leads: ['status', 'rating', 'source', 'email', 'phone', 'owner_id'],
  opportunities: ['stage', 'account_id'],
  cases: ['status'],
};
/** Returns the plain filters, `?field=value`. */
const plainFilters = ({ filters: declared }: ResourceDefinition) =>
  declared.filter(({ field, parameters }) => parameters.some(({ name }) => name === field.name));
const textFilters = (definition: ResourceDefinition) =>
  plainFilters(definition).filter(({ field }) => kindOf(field) === 'string');
/** The only resource with a fixed order. */
const fixedOrder = 'cases';

// Seven full pages and a quarter. Pages from the sixth on are read by a different statement.
const count = 145;
const texts = ['', 'a', 'A', 'b', 'Zoë', 'zoo', '世界', '🌍', '~', ' '];
const instants = [
  '2026-03-01T00:30:00+05:30',
  '2026-02-28T20:00:00+01:00',
  '2026-02-28T19:00:00.000001Z',
  '2026-02-28T11:00:00-08:00',
  '1999-12-31T23:59:59.999999Z',
];

/**
 * Returns the field's value for the record with this index. There are only a few distinct values, so many records are
 * equal.
 */
function value(field: Field, number: number): string {
  const turn = (number * 7) % 11;
  switch (kindOf(field)) {
    case 'string':
      return JSON.stringify(texts[turn] ?? 'x'.repeat(120));
    case 'timestamp':
      return JSON.stringify(instants[turn] ?? null);
    case 'int32':
      return String(turn - 5);
    case 'int64':
      return turn === 0 ? 'null' : String(9007199254740993n + 2n * BigInt(turn));
    case 'number':
      return `${turn % 4}.${turn}`;
    default:
      return 'null';
  }
}

/** Sets server-set fields to values of which many are equal and some are null. */
const scatter = ({ name, fields }: ResourceDefinition) => {
  const number = `(id % 5)`;
  const values: Readonly<Record<string, string>> = {
    int64: `nullif(${number}, 3)`,
    timestamp: `timestamptz '2026-01-01' + ${number} * interval '1 microsecond'`,
    string: `chr(65 + ${number}::int)`,
  };
  const set = fields
    .filter((field) => field.readOnly && isStored(field))
    .filter((field) => field.set !== 'id' && field.set !== 'organization')
    .map((field) => `"${field.name}" = ${values[kindOf(field)]}`);
  return `update "${name}" set ${set.join(', ')} where organization_id = $1::bigint`;
};

onBothDrivers('lists', (instance) => {
  let alpha: Organization;
  /** Alpha's records, keyed by resource and in creation order. */
  const all = new Map<string, readonly ExactRecord[]>();
  const recordsOf = ({ name }: ResourceDefinition) => all.get(name) ?? [];

  const get = (definition: ResourceDefinition, query: string, call: Call = {}): Promise<Answer> =>
    instance().call(`GET ${pathOf(definition)}?${query}`, { key: alpha.key, ...call });
  const walked = async (definition: ResourceDefinition, query: string) =>
    (await walk(instance(), pathOf(definition), query, alpha.key)).flat();
  const ids = (records: readonly ExactRecord[]) => records.map((record) => numberText(record.id));

  before(async () => {
    alpha = await instance().organization('alpha');
    for (const definition of definitions) {
      const numbers = Array.from({ length: count }, (_, number) => number);
      await Promise.all(
        Array.from({ length: 5 }, async () => {
          for (let number = numbers.pop(); number !== undefined; number = numbers.pop()) {
            const at = number;
            const fields = writable(definition).map((field) => [field.name, value(field, at)] as const);
            await make(instance(), alpha.key, definition, objectText(fields));
          }
        }),
      );
      const text = scatter(definition);
      await instance().database.run({ name: `scatter ${definition.name}`, text, values: [alpha.id] });
      const records = await walked(definition, 'sort=id');
      const oldestFirst = (a: ExactRecord, b: ExactRecord) =>
        Number(numberText(a.id)) - Number(numberText(b.id));
      all.set(definition.name, [...records].sort(oldestFirst));
      assert.equal(records.length, count);
    }
  });

  /**
   * Returns the expected IDs according to the contract: in the field's order, with equal values by ID in the same
   * direction.
   */
  function ordered(definition: ResourceDefinition, field: Field, direction: 'asc' | 'desc'): string[] {
    const sorted = [...recordsOf(definition)].sort(
      (a, b) => compareValues(field.type.json, a[field.name] ?? null, b[field.name] ?? null),
      // Array.sort is stable, and the records are in the order of their ids.
    );
    return ids(direction === 'asc' ? sorted : sorted.reverse());
  }
  const defaultOrder = (definition: ResourceDefinition) => {
    const [name, direction] = defaultOrders[definition.name] ?? ['', 'asc'];
    const field = definition.fields.find((one) => one.name === name);
    assert.ok(field);
    return { field, direction, turned: direction === 'asc' ? 'desc' : 'asc' } as const;
  };
  const selectable = definitions.filter(({ name }) => name !== fixedOrder);

  describe('list object', () => {
    for (const definition of definitions) {
      test(`${definition.name}: contains only data, page and per_page (always 20)`, async () => {
        for (const [query, page, length] of [
          ['', 1, 20],
          ['page=2', 2, 20],
          [`page=${deepPage}`, deepPage, 20],
          ['page=8', 8, 5],
          ['page=9', 9, 0],
          ['per_page=100&limit=7', 1, 20],
        ] as const) {
          const { status, json } = await get(definition, query);
          const { data, ...rest } = json;
          assert.equal(status, 200);
          assert.deepEqual(rest, { page, per_page: 20 }, query);
          assert.equal((data as unknown[]).length, length, query);
          assert.deepEqual(Object.keys(json), ['data', 'page', 'per_page']);
        }
      });
    }

    test('an organization with 0 or 20 records ends with an empty page', async () => {
      const [definition] = definitions;
      assert.ok(definition);
      const beta = await instance().organization('beta');
      const pages = async () =>
        (await walk(instance(), pathOf(definition), '', beta.key)).map((page) => page.length);
      assert.deepEqual(await pages(), [0]);
      for (let number = 0; number < 20; number++) await make(instance(), beta.key, definition);
      assert.deepEqual(await pages(), [20, 0]);
    });
  });

  describe('default order', () => {
    for (const definition of definitions) {
      const [name, direction] = defaultOrders[definition.name] ?? [];
      test(`${definition.name}: ${name} ${direction}, then id`, async () => {
        const { field, direction } = defaultOrder(definition);
        assert.deepEqual(ids(await walked(definition, '')), ordered(definition, field, direction));
      });
    }
  });

  describe('sort accepts any stored scalar field', () => {
    for (const definition of selectable) {
      test(`${definition.name}: each field, each direction, all pages`, async () => {
        for (const field of definition.fields.filter(isStored)) {
          for (const direction of ['asc', 'desc'] as const) {
            const query = `sort=${field.name}&dir=${direction}`;
            assert.deepEqual(
              ids(await walked(definition, query)),
              ordered(definition, field, direction),
              query,
            );
          }
        }
      });

      test(`${definition.name}: sorts ascending without dir, except that the default field keeps its own direction`, async () => {
        const { field: byDefault, direction } = defaultOrder(definition);
        for (const field of definition.fields.filter(isStored)) {
          const expected = ordered(definition, field, field === byDefault ? direction : 'asc').slice(0, 20);
          assert.deepEqual(ids(dataOf(await get(definition, `sort=${field.name}`))), expected, field.name);
        }
      });

      test(`${definition.name}: rejects unknown names, hidden columns and SQL, and lists the accepted names`, async () => {
        const names = definition.fields.filter(isStored).map(({ name }) => name);
        const rows = await instance().database.run({
          name: 'every column',
          text: "select distinct column_name::text from information_schema.columns where table_schema = 'public'",
          values: [],
        });
        const columns = rows.map(([column]) => String(column)).filter((column) => !names.includes(column));
        assert.ok(
          columns.includes('secret_hash') && columns.includes('password_hash'),
          'internal columns were found',
        );
        const joined = definitions.flatMap(({ fields }) => fields.filter((field) => !isStored(field)));
        const invalidNames = [
          ...columns,
          ...joined.map(({ name }) => name),
          ' id',
          'ID',
          'id;--',
          'id desc',
          'id,secret_hash',
          '-password_hash',
          'id,-(select 1)',
          'name desc nulls first',
          '(select 1)',
          '(select secret_hash from crm_api_keys)',
          "id'",
          'id"',
          't.id',
          'account.name',
          'account_id.name',
          'organization.slug',
          '__proto__',
          'constructor',
          'toString',
          '1',
          '\0',
          'x'.repeat(10_000),
        ];
        const message = `sort must be one of ${names.join(', ')}`;
        for (const name of invalidNames) {
          const answer = await get(definition, `sort=${encodeURIComponent(name)}`);
          const { error, code, fields } = errorOf(answer);
          assert.deepEqual(
            [answer.status, code, fields],
            [400, 'invalid_input', [{ field: 'sort', message: error }]],
          );
          // A suggestion is one of the accepted names.
          const suggestion = String(error)
            .slice(message.length)
            .replace(/^\. Did you mean "(\w+)"\?$/, '$1');
          assert.ok(String(error).startsWith(message) && ['', ...names].includes(suggestion), answer.text);
        }
        const body = { error: message, code: 'invalid_input', fields: [{ field: 'sort', message }] };
        for (const query of ['sort=id&sort=created_at', 'sort=id&sort=id', 'sort=id&sort=']) {
          assert.deepEqual(errorOf(await get(definition, query)), body, query);
        }
      });
    }
  });

  describe('dir accepts asc or desc in any case, and alone reverses the default order', () => {
    for (const definition of selectable) {
      test(definition.name, async () => {
        const { field, direction, turned } = defaultOrder(definition);
        assert.deepEqual(ids(await walked(definition, `dir=${turned}`)), ordered(definition, field, turned));
        for (const dir of [turned.toUpperCase(), turned.replace(/^./, (letter) => letter.toUpperCase())]) {
          const first = ids(dataOf(await get(definition, `dir=${dir}`)));
          assert.deepEqual(first, ordered(definition, field, turned).slice(0, 20), dir);
        }
        assert.deepEqual(
          ids(dataOf(await get(definition, `dir=${direction}`))),
          ordered(definition, field, direction).slice(0, 20),
        );
        for (const query of ['dir=up', 'dir=ascending', 'dir=asc%20', 'dir=1', 'dir=asc&dir=desc']) {
          const answer = await get(definition, query);
          const message = 'dir must be asc or desc';
          const expected = { error: message, code: 'invalid_input', fields: [{ field: 'dir', message }] };
          assert.deepEqual([answer.status, errorOf(answer)], [400, expected], query);
        }
      });
    }
  });

  describe('page', () => {
    const huge = `1${'0'.repeat(30)}`;
    for (const definition of definitions) {
      test(`${definition.name}: values below 1 become 1, and pages beyond the end are empty`, async () => {
        const first = (await get(definition, '')).text;
        for (const page of ['1', '0', '-1', '-0', '00', '01', `-${huge}`, '-9223372036854775809']) {
          assert.equal((await get(definition, `page=${page}`)).text, first, page);
        }
        for (const page of [
          '9',
          '1000000',
          '2147483648',
          '9007199254740993',
          '9223372036854775807',
          '9223372036854775808',
          '18446744073709551616',
          huge,
          `1${'0'.repeat(400)}`,
        ]) {
          const { status, text } = await get(definition, `page=${page}`);
          assert.deepEqual([status, text], [200, `{"data":[],"page":${page},"per_page":20}`]);
        }
      });

      test(`${definition.name}: rejects values that are not integers`, async () => {
        const bodyOf = (message: string) => ({
          error: message,
          code: 'invalid_input',
          fields: [{ field: 'page', message }],
        });
        const invalidPages = [
          'abc',
          '1.5',
          '1.0',
          '1e3',
          '0x10',
          ' 1',
          '1 ',
          '+1',
          '1;drop',
          '1,2',
          'NaN',
          '１',
          '\0',
        ];
        const cases = [
          ...invalidPages.map(
            (page) => [`page=${encodeURIComponent(page)}`, 'page must be an integer'] as const,
          ),
          ['page=1&page=2', 'page must not be repeated'],
          ['page=1&page=1', 'page must not be repeated'],
        ] as const;
        for (const [query, message] of cases) {
          const answer = await get(definition, query);
          assert.deepEqual([answer.status, errorOf(answer)], [400, bodyOf(message)], query);
        }
      });
    }

    for (const definition of definitions) {
      test(`${definition.name}: empty parameters count as absent, alone and combined`, async () => {
        const whole = await get(definition, '');
        for (const query of ['page=', 'sort=', 'dir=', 'page=&sort=&dir=', 'status=&page=&sort=&dir=']) {
          const answer = await get(definition, query);
          assert.deepEqual([answer.status, answer.text], [200, whole.text], query);
        }
        const second = await get(definition, 'page=2');
        assert.equal((await get(definition, 'page=2&sort=&dir=')).text, second.text);
        const [, cursor] = /[?&]cursor=([\w.-]+)>; rel="next"/.exec(whole.headers.get('link') ?? '') ?? [];
        const { status, json } = await get(definition, `cursor=${cursor}&page=`);
        assert.deepEqual(
          [status, json.data],
          [200, second.json.data],
          'an empty page parameter with a cursor',
        );
      });
    }

    test('all invalid parameters are reported together', async () => {
      for (const definition of selectable) {
        const { status, json } = await get(definition, 'page=x&sort=y&dir=z');
        const fields = (json.fields as { field: string }[]).map(({ field }) => field);
        assert.deepEqual([status, fields], [400, ['page', 'sort', 'dir']]);
      }
    });
  });

  test('filters of the contract and additional ones', () => {
    for (const definition of definitions) {
      assert.deepEqual(
        plainFilters(definition).map(({ field }) => field.name),
        filters[definition.name],
      );
    }
  });

  describe('filters', () => {
    const cases = definitions.flatMap((definition) =>
      textFilters(definition).map(({ field }) => ({ definition, field })),
    );
    for (const { definition, field: filtered } of cases) {
      const { name } = filtered;
      const expect = async (query: string, predicate: (text: string) => boolean) => {
        const { field, direction } = defaultOrder(definition);
        const byId = new Map(recordsOf(definition).map((record) => [numberText(record.id), record]));
        const expected = ordered(definition, field, direction).filter((id) =>
          predicate(String(byId.get(id)?.[name])),
        );
        assert.deepEqual(ids(await walked(definition, query)), expected, query);
        return expected.length;
      };
      const is = (text: string) => `${name}=${encodeURIComponent(text)}`;

      const equalTo =
        (...values: readonly string[]) =>
        (one: string) =>
          values.some((value) => matches(filtered, one, value));

      test(`${definition.name}.${name}: matches equal values`, async () => {
        for (const text of [...texts, 'x'.repeat(120), 'x'.repeat(119)].filter((one) => one !== '')) {
          const found = await expect(is(text), equalTo(text));
          // No value equals a text without a key, for example a phone number without digits.
          assert.equal(found > 0, text.length !== 119 && equalTo(text)(text), text);
        }
        for (const text of ['a ', ' a', 'a%', '_', 'a\n', 'a,b', "a' or '1'='1", 'null', '*', 'zoe\u0308']) {
          assert.equal(await expect(is(text), equalTo(text)), 0, text);
        }
      });

      test(`${definition.name}.${name}: ignores an empty value`, async () => {
        assert.equal(await expect(`${name}=`, () => true), count);
        assert.equal(await expect(`${name}`, () => true), count);
        assert.equal(await expect(`${name}=&${name}=`, () => true), count);
      });

      test(`${definition.name}.${name}: matches any of several values`, async () => {
        await expect(`${is('a')}&${is('b')}`, equalTo('a', 'b'));
        await expect(`${is('a')}&${is('a')}`, equalTo('a'));
        await expect(`${is('a')}&${name}=`, equalTo('a'));
        await expect(`${is('nothing')}&${is('世界')}`, equalTo('世界'));
        const many = Array.from({ length: maxFilterValues - 1 }, (_, index) => is(`v${index}`)).join('&');
        await expect(`${many}&${is('🌍')}`, equalTo('🌍'));
        assert.equal(await expect(many, () => false), 0);
        const response = await get(definition, `${many}&${is('a')}&${is('b')}`);
        assert.equal(response.status, 400);
        assert.deepEqual(response.json.fields, [
          { field: name, message: `${name} must not be repeated more than ${maxFilterValues} times` },
        ]);
      });

      test(`${definition.name}.${name}: rejects U+0000 before it reaches the database`, async () => {
        for (const query of [`${name}=%00`, `${name}=a%00b`, `${name}=a&${name}=%00`]) {
          const answer = await get(definition, query);
          assert.equal(answer.status, 400, query);
          assertErrorShape(answer);
        }
      });
    }

    test('several filters must all match, in any parameter order', async () => {
      // Nothing equals a phone number without digits.
      const comparable = (definition: ResourceDefinition) =>
        textFilters(definition).filter(({ field }) => matches(field, 'a', 'a'));
      for (const definition of definitions.filter((one) => comparable(one).length > 1)) {
        const [first, second] = comparable(definition).map(({ field }) => field.name) as [string, string];
        const expected = recordsOf(definition).filter((one) => one[first] === 'a' && one[second] === 'a');
        assert.ok(expected.length > 0);
        for (const query of [`${first}=a&${second}=a`, `${second}=a&${first}=a`]) {
          const actual = ids(await walked(definition, `${query}&sort=id`));
          assert.deepEqual(actual, ids(expected));
        }
        assert.deepEqual(await walked(definition, `${first}=a&${second}=b`), []);
      }
    });

    test('a filter, a sort and a page can be combined', async () => {
      for (const definition of selectable.filter((one) => one.filters.length > 0)) {
        const name = definition.filters[0]?.field.name ?? '';
        const matching = recordsOf(definition).filter((one) => one[name] !== '~' && one[name] !== '');
        const values = [...new Set(matching.map((one) => encodeURIComponent(String(one[name]))))];
        const query = `${values.map((text) => `${name}=${text}`).join('&')}&sort=id&dir=desc`;
        const expected = ids(matching).reverse();
        for (const page of [2, deepPage]) {
          const actual = ids(dataOf(await get(definition, `${query}&page=${page}`)));
          assert.deepEqual(actual, expected.slice(20 * (page - 1), 20 * page));
          assert.ok(actual.length > 0, `page ${page}`);
        }
      }
    });
  });

  describe('undeclared parameters', () => {
    for (const definition of definitions) {
      test(`${definition.name}: are ignored and do not change any statement`, async () => {
        const parameters = plainFilters(definition).map(({ field }) => field.name);
        if (definition.search.length > 0) parameters.push('q');
        parameters.push('fields', 'expand');
        const others = [
          ...definitions.flatMap(({ fields }) => fields.map(({ name }) => name)),
          ...[
            'where',
            'filter',
            'select',
            'field',
            'limit',
            'offset',
            'per_page',
            'order',
            'include',
            'query',
          ],
          ...['__proto__', 'constructor', 'status__gt', 'secret_hash', 'X-Org-Slug', ''],
        ].filter((name) => !parameters.includes(name));
        const plain = await get(definition, '');
        const statements = await recordStatements(instance().database, () => get(definition, ''));
        assert.equal(statements.length, 1);
        for (const name of new Set(others)) {
          const query = `${encodeURIComponent(name)}=a`;
          const made = await recordStatements(instance().database, async () => {
            assert.equal((await get(definition, query)).text, plain.text, query);
          });
          assert.deepEqual(made, statements, query);
        }
        assert.equal(({} as { x?: unknown }).x, undefined);
      });
    }

    test('cases: ignores sort and dir as unknown parameters', async () => {
      const definition = definitions.find(({ name }) => name === fixedOrder);
      assert.ok(definition);
      const plain = await get(definition, 'page=2');
      const names = definition.fields.map(({ name }) => name);
      for (const query of [
        ...names.map((name) => `sort=${name}&dir=asc`),
        'dir=asc',
        'dir=up',
        'sort=nothing',
        'sort=id&sort=id',
        'dir=asc&dir=desc',
      ]) {
        const answer = await get(definition, `page=2&${query}`);
        assert.deepEqual([answer.status, answer.text], [200, plain.text], query);
      }
      const strict = await get(definition, 'sort=id&dir=asc', { headers: { prefer: 'handling=strict' } });
      assert.deepEqual(
        (strict.json.fields as { field: string }[]).map(({ field }) => field),
        ['sort', 'dir'],
      );
    });
  });
});
