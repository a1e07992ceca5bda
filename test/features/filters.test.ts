// Filters with operators: every operator on every field type that supports it, compared with results computed in
// JavaScript.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { projectFolder } from '../../engine/config/variables.ts';
import { fieldTypes } from '../../engine/fields/field-types.ts';
import type { FieldType } from '../../engine/fields/type.ts';
import { type OperatorName, operatorOf, operators } from '../../engine/query/operators.ts';
import { looseFields, stored } from '../support/every-type.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import {
  compareValues,
  dataOf,
  type Exact,
  type ExactRecord,
  exactRecord,
  numberText,
} from '../support/reading.ts';
import { errorOf, type Scenario, scenarios } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const operatorNames = Object.keys(operators) as OperatorName[];
const suits = (type: FieldType, operator: OperatorName) => type[operatorOf(operator).needs] !== undefined;
const found = {
  file: 'loose.yaml',
  text: `${looseFields}
filters:
${stored.map(([name, type]) => `  - { field: n_${name}, operators: [${operatorNames.filter((operator) => suits(type, operator))}] }`).join('\n')}`,
};

const texts = [
  '',
  'a',
  'A',
  'ab',
  'zoo',
  'a_b',
  'ab\\',
  'Zoë',
  'ab%',
  '世界',
  '世',
  '"quoted", \\"twice\\"',
  '{a,NULL}',
  'x'.repeat(100),
  'null',
  'x'.repeat(101),
];
const instants = [
  '2026-03-01T00:30:00+05:30',
  '2026-02-28T20:00:00+01:00',
  '2026-02-28T19:00:00Z',
  '2026-02-28T19:00:00.000001Z',
  '0001-01-01T00:00:00+12:00',
];
/** Returns the JSON texts to store and to filter by. */
const valuesOf = (type: FieldType): readonly string[] => {
  if (type.text !== undefined) return texts.map((text) => JSON.stringify(text));
  if (type.json.format === 'date-time') return instants.map((text) => JSON.stringify(text));
  return type.refers ? ['1', '2', '3'] : type.examples.map((example) => JSON.stringify(example));
};

/** Returns whether a filter matches a value, as documented in docs/reference.md. */
function matches(type: FieldType, operator: OperatorName, has: Exact, values: readonly Exact[]): boolean {
  const compared = (value: Exact) => compareValues(type.json, has, value);
  const [value = null] = values;
  switch (operator) {
    case 'eq':
    case 'in':
      return has !== null && values.some((each) => compared(each) === 0);
    case 'ne':
      return has === null || values.every((each) => compared(each) !== 0);
    case 'is_null':
      return (has === null) === value;
    case 'starts_with':
      return has !== null && String(has).startsWith(String(value));
    case 'contains':
      return has !== null && String(has).includes(String(value));
    // No type in this test has lists.
    case 'any':
    case 'all':
      return false;
    default: {
      if (has === null) return false;
      const sign = compared(value);
      return { gt: sign > 0, gte: sign >= 0, lt: sign < 0, lte: sign <= 0 }[operator];
    }
  }
}

onBothDrivers(
  'filters with operators',
  (instance) => {
    let organization: Organization;
    let all: readonly ExactRecord[];
    let members: readonly string[];
    const choicesOf = (type: FieldType) => (type.users ? members : valuesOf(type));
    const get = (query: string): Promise<Answer> =>
      instance().call(`GET /api/v1/loose?sort=id&${query}`, { key: organization.key });
    const ids = (records: readonly ExactRecord[]) => records.map(({ id }) => numberText(id));

    before(async () => {
      organization = await instance().organization('alpha');
      const people = [1, 2, 3].map(() => makePerson(instance(), [{ organization }]));
      members = (await Promise.all(people)).map(({ id }) => id);
      const made: ExactRecord[] = [];
      for (let number = 0; number < 19; number++) {
        const values = stored.map(([name, type]) => {
          const choices = choicesOf(type);
          const possible = type.refers && number < 3 ? [] : choices;
          const value = number % 5 === 4 ? undefined : possible[number % choices.length];
          return `"n_${name}":${value ?? 'null'}`;
        });
        const answer = await instance().call('POST /api/v1/loose', {
          key: organization.key,
          body: `{${values}}`,
        });
        assert.equal(answer.status, 201, answer.text);
        made.push(exactRecord(answer.text));
      }
      all = made;
    });

    for (const [name, type] of stored) {
      for (const operator of operatorNames.filter((each) => suits(type, each))) {
        test(`${name} ${operator}`, async () => {
          const { words, repeatable } = operatorOf(operator);
          const values = (words ?? choicesOf(type)).map(
            (text) => JSON.parse(text) as string | number | boolean,
          );
          const queries = values.filter((value) => value !== '').map((value) => [value]);
          if (repeatable)
            for (const several of [values.slice(0, 3), values])
              queries.push(several.filter((value) => value !== ''));
          let some = 0;
          for (const wanted of queries) {
            const query = wanted
              .map((value) => `n_${name}[${operator}]=${encodeURIComponent(String(value))}`)
              .join('&');
            const exact = wanted.map((value) =>
              typeof value === 'number' ? { number: String(value) } : value,
            );
            const expected = all.filter((record) =>
              matches(type, operator, record[`n_${name}`] ?? null, exact),
            );
            const answer = await get(query);
            assert.equal(answer.status, 200, answer.text);
            assert.deepEqual(ids(dataOf(answer)), ids(expected), query);
            some += expected.length;
          }
          assert.ok(some > 0, 'at least one record matches');
        });
      }
    }

    test('multiple filters, on the same or different fields, must all match', async () => {
      const query = 'n_integer[gte]=0&n_integer[lt]=8&n_string[ne]=a&n_reference[is_null]=false';
      const expected = all.filter(
        (record) =>
          Number(numberText(record.n_integer)) >= 0 &&
          record.n_integer !== null &&
          Number(numberText(record.n_integer)) < 8 &&
          record.n_string !== 'a' &&
          record.n_reference !== null,
      );
      assert.ok(expected.length > 0);
      assert.deepEqual(ids(dataOf(await get(query))), ids(expected));
      const turned = await get(query.split('&').toReversed().join('&'));
      assert.deepEqual(ids(dataOf(turned)), ids(expected));
    });

    test('in does not split values at commas, and parameter names can be percent-encoded', async () => {
      assert.deepEqual(dataOf(await get('n_string[in]=a,ab')), []);
      const encoded = await get('n_string%5Bin%5D=a&n_string%5Bin%5D=ab');
      assert.deepEqual(encoded.text, (await get('n_string[in]=a&n_string[in]=ab')).text);
    });

    test('a filter can have 50 values', async () => {
      const values = Array.from({ length: 50 }, (_, value) => `n_integer[in]=${value}`);
      const expected = all.filter(
        ({ n_integer: has }) => has !== null && Number(numberText(has)) >= 0 && Number(numberText(has)) < 50,
      );
      assert.deepEqual(ids(dataOf(await get(values.join('&')))), ids(expected));
    });

    test('ignores empty values', async () => {
      for (const operator of ['eq', 'ne', 'gt', 'in', 'starts_with', 'contains', 'is_null']) {
        const field = operator === 'gt' ? 'n_timestamp' : 'n_string';
        assert.deepEqual(ids(dataOf(await get(`${field}[${operator}]=`))), ids(all), operator);
      }
      assert.equal(
        dataOf(await get('n_string[in]=&n_string[in]=a')).length,
        dataOf(await get('n_string=a')).length,
      );
    });

    const message = (field: string, text: string) => ({
      error: `${field} ${text}`,
      code: 'invalid_input',
      fields: [{ field, message: `${field} ${text}` }],
    });
    const rejections: readonly (readonly [query: string, field: string, text: string])[] = [
      ['n_integer[gte]=x', 'n_integer[gte]', `must be ${fieldTypes.integer.expected}`],
      ['n_integer[in]=1&n_integer[in]=1.5', 'n_integer[in]', `must be ${fieldTypes.integer.expected}`],
      [
        'n_timestamp[lt]=2026-02-30',
        'n_timestamp[lt]',
        `must be ${fieldTypes.timestamp.expected}, or a date`,
      ],
      ['n_timestamp[eq]=2026-03-01', 'n_timestamp[eq]', `must be ${fieldTypes.timestamp.expected}`],
      ['n_string[contains]=%00', 'n_string[contains]', 'must be a string'],
      ['n_string[is_null]=yes', 'n_string[is_null]', 'must be true or false'],
      ['n_string[is_null]=null', 'n_string[is_null]', 'must be true or false'],
      ['n_integer[gt]=1&n_integer[gt]=2', 'n_integer[gt]', 'must not be repeated'],
      ['n_string[starts_with]=a&n_string[starts_with]=b', 'n_string[starts_with]', 'must not be repeated'],
      [
        Array.from({ length: 51 }, (_, value) => `n_integer[in]=${value}`).join('&'),
        'n_integer[in]',
        'must not be repeated more than 50 times',
      ],
      [
        'n_boolean[starts_with]=t',
        'n_boolean[starts_with]',
        'is not a filter of this list. Available filters: n_boolean[eq], n_boolean[ne], n_boolean[gt], n_boolean[gte], n_boolean[lt], n_boolean[lte], n_boolean[in], n_boolean[is_null]',
      ],
    ];
    for (const [query, field, text] of rejections) {
      test(`${query.slice(0, 60)} → 400`, async () => {
        const answer = await get(query);
        assert.deepEqual([answer.status, errorOf(answer)], [400, message(field, text)]);
      });
    }
    test('rejects unknown names with brackets and lists the accepted filters, but ignores unknown plain names', async () => {
      for (const name of [
        'id[eq]',
        'page[]',
        'n_string[$ne]',
        'n_string[]',
        'n_string[eq][x]',
        '[',
        '__proto__[x]',
      ]) {
        const { status, json } = await get(`${encodeURIComponent(name)}=1`);
        assert.equal(status, 400, name);
        const [problem] = json.fields as { field: string; message: string }[];
        assert.equal(problem?.field, name);
        assert.match(
          String(problem?.message),
          /is not a filter of this list\. Available filters: .*n_string\[eq\], n_string\[ne\]/,
        );
      }
      const empty = await get('id[eq]=');
      assert.equal(empty.status, 400, 'for any value');
      assert.equal((await get('nonsense=1')).status, 200);
    });
    test('reports the first few unknown operators, each once', async () => {
      const query = Array.from({ length: 1000 }, (_, index) => `x${index}[eq]=1`).join('&');
      for (const headers of [{}, { prefer: 'handling=strict' }]) {
        const answer = await instance().call(`GET /api/v1/loose?${query}`, {
          key: organization.key,
          headers,
        });
        assert.equal(answer.status, 400);
        assert.deepEqual(
          (answer.json.fields as { field: string }[]).map(({ field }) => field),
          [0, 1, 2, 3, 4].map((index) => `x${index}[eq]`),
        );
      }
    });
    test('reports all errors together', async () => {
      const { json } = await get('page=x&n_integer[gt]=x&n_string[like]=1&n_boolean=maybe');
      const fields = (json.fields as { field: string }[]).map(({ field }) => field);
      assert.deepEqual(fields, ['page', 'n_string[like]', 'n_integer[gt]', 'n_boolean']);
    });
  },
  { sources: [...(await sourcesWith()), found] },
);

onBothDrivers('the filters of the five resources', (instance) => {
  let alpha: Organization;
  let user = '';
  let account = '';
  let contact = '';
  let caseId = '';
  before(async () => {
    alpha = await instance().organization('alpha');
    user = alpha.user;
    const keyless = (await alpha.makeKey()).key;
    const post = async (resource: string, body: object, key = alpha.key) => {
      const answer = await instance().call(`POST /api/v1/${resource}`, { key, body });
      assert.equal(answer.status, 201, answer.text);
      return numberText(exactRecord(answer.text).id);
    };
    await post('leads', {
      first_name: 'Ada',
      last_name: 'Lovelace',
      company: 'Engines',
      lead_score: 7,
      email: 'Ada@x.example',
      phone: '+49 30 1',
      source: 'Website',
    });
    await post('leads', { first_name: 'Bob', email: 'ada@x.example', phone: '4930 1', source: 'Phone' });
    await post('leads', { first_name: 'Cyd', email: 'ÄDA@x.example', status: 'New' }, keyless);
    account = await post('accounts', { name: 'Acme', website: 'https://acme.example', industry: 'Engines' });
    await post('accounts', { name: 'Acme Labs' });
    await post('contacts', { email: 'a@acme.example', account_id: Number(account) });
    await post('opportunities', {
      account_id: Number(account),
      amount: 10,
      close_date: '2026-03-01T01:59:59.999999+02:00',
    });
    await post('opportunities', { amount: 20.5, probability: 60, close_date: '2026-03-01T00:00:00Z' });
    await post('opportunities', { amount: 30 });
    caseId = await post('cases', { subject: 'One' });
    contact = await post('contacts', { email: 'b@acme.example', last_name: 'Byron', title: 'Countess' });
    const references = { account_id: Number(account), contact_id: Number(contact) };
    await post('cases', { subject: 'Two', queue_id: 8, priority: 'High', ...references });
  });

  const counted = (does: string, count: number): Scenario => ({
    as: 'admin',
    does: `GET /api/v1/${does}`,
    gets: 200,
    and: (answer) => assert.equal(dataOf(answer).length, count, answer.text),
  });
  const later = '2999-01-01T00:00:00%2B02:00';
  scenarios(
    instance,
    () => ({ callers: { admin: alpha.key }, values: { user, account, contact, case: caseId } }),
    [
      // A field with a lookup is compared as the lookup compares it.
      counted('leads?email=ADA@x.example', 2),
      counted('leads?email[eq]=ada@x.example', 2),
      counted('leads?email[in]=ada@x.example&email[in]=none@x.example', 2),
      counted('leads?email=ada@x.exampl', 0),
      counted(`leads?email=${encodeURIComponent('ÄDA@x.example')}`, 1),
      counted(`leads?email=${encodeURIComponent('äda@x.example')}`, 0),
      counted('leads?phone=004930-1', 2),
      counted('leads?phone=4930', 0),
      counted('leads?phone=none', 0),
      counted('leads?phone=none&phone=unknown', 0),
      counted('leads?phone[in]=4930%201&phone[in]=%2B49%2030%201', 2),
      counted('leads?source=Website&source=Phone', 2),
      counted('leads?source[ne]=Website', 2),
      counted('leads?owner_id={user}', 2),
      counted('leads?owner_id[is_null]=true', 1),
      counted('leads?status[ne]=New', 2),
      counted('leads?created_at[gte]=2020-01-01T00:00:00Z&created_at[lt]=2999-01-01T00:00:00Z', 3),
      counted(`leads?updated_at[gte]=${later}`, 0),
      counted(`leads?updated_at[lte]=${later}&sort=updated_at`, 3),
      counted('contacts?email=a@acme.example', 1),
      counted('contacts?account_id={account}', 1),
      counted('contacts?account_id[is_null]=true', 1),
      counted(`contacts?created_at[gt]=${later}`, 0),
      counted('accounts?name[starts_with]=Acme', 2),
      counted('accounts?name[contains]=Lab', 1),
      counted('accounts?name=Acme', 1),
      counted('accounts?website=https://acme.example', 1),
      counted('opportunities?account_id={account}', 1),
      counted('opportunities?amount[gte]=20.5', 2),
      counted('opportunities?amount[gt]=10&amount[lt]=30', 1),
      counted('opportunities?close_date[lt]=2026-03-01T00:00:00Z', 1),
      counted('opportunities?close_date[gte]=2026-03-01T01:00:00+01:00', 1),
      // A date stands for the start or the end of the day in UTC. The first record is from the end of 28 February in UTC.
      counted('opportunities?close_date[gte]=2026-03-01', 1),
      counted('opportunities?close_date[lt]=2026-03-01', 1),
      counted('opportunities?close_date[gt]=2026-02-28', 1),
      counted('opportunities?close_date[lte]=2026-02-28', 1),
      counted('opportunities?close_date[gte]=2026-02-28&close_date[lte]=2026-03-01', 2),
      counted('opportunities?close_date[is_null]=true', 1),
      counted('cases?status=New', 2),
      {
        as: 'admin',
        does: 'GET /api/v1/cases?status[eq]=New',
        gets: 400,
        has: {
          error:
            'status[eq] is not a filter of this list. Available filters: priority[in], priority[ne], account_id[in], account_id[is_null], contact_id[in], contact_id[is_null], queue_id[in], queue_id[is_null], owner_id[in], owner_id[is_null], id[in], created_at[gt], created_at[gte], created_at[lt], created_at[lte], updated_at[gt], updated_at[gte], updated_at[lt], updated_at[lte]',
        },
      },
      // Except for the status, cases have only filters with operators. Other plain parameters are ignored.
      counted('cases?created_at[gte]=2020-01-01T00:00:00Z', 2),
      counted(`cases?updated_at[gt]=${later}`, 0),
      counted('cases?account_id[in]={account}', 1),
      counted('cases?account_id={account}', 2),
      counted('cases?contact_id[in]={contact}', 1),
      counted('cases?contact_id[is_null]=true', 1),
      counted('cases?queue_id[in]=7&queue_id[in]=8', 1),
      counted('cases?queue_id=8', 2),
      counted('cases?priority[in]=High', 1),
      counted('cases?priority[ne]=High', 1),
      counted('cases?priority=Low', 2),
      counted('cases?owner_id[in]={user}', 2),
      counted('cases?owner_id=0', 2),
      counted('cases?owner_id[is_null]=true', 0),
      counted('cases?id[in]={case}', 1),
      counted('cases?id[in]={case}&id[in]=0&account_id[is_null]=true', 1),
      counted('cases?id=0', 2),
      counted('accounts?industry[in]=Engines', 1),
      counted('accounts?industry[ne]=Engines', 1),
      counted('accounts?industry=None', 2),
      counted('accounts?owner_id[in]={user}', 2),
      counted('accounts?id[in]={account}', 1),
      counted('contacts?last_name[in]=Byron', 1),
      counted('contacts?last_name[starts_with]=By', 1),
      counted('contacts?last_name=None', 2),
      counted('contacts?title[in]=Countess', 1),
      counted('contacts?title[contains]=unt', 1),
      counted('contacts?owner_id[is_null]=false', 2),
      counted('contacts?id[in]={contact}&id[in]=0', 1),
      counted('leads?last_name[starts_with]=Love', 1),
      counted('leads?company[in]=Engines', 1),
      counted('leads?company[contains]=gin', 1),
      counted('leads?company=None', 3),
      counted('leads?lead_score[gte]=5', 1),
      counted('leads?lead_score[lt]=5', 2),
      counted('leads?id[in]=0', 0),
      counted('opportunities?probability[gt]=50', 1),
      counted('opportunities?probability[lte]=50', 2),
      counted('opportunities?owner_id[in]={user}', 3),
      counted('opportunities?id[in]=0', 0),
      {
        as: 'admin',
        does: 'GET /api/v1/contacts?email[like]=x',
        gets: 400,
        has: { error: 'email[like] is not a filter of this list. Available filters: email[eq], email[in]' },
      },
    ],
  );

  test('docs/reference.md lists all of them', () => {
    const page = readFileSync(join(projectFolder, 'docs/reference.md'), 'utf8');
    const rowOf = (name: string) => page.split('\n').find((line) => line.startsWith(`| ${name} `)) ?? '';
    /** Returns the fields and operators in a table row, for example `a`, `b` eq in; `c` gt. */
    const declaredIn = (row: string) =>
      (row.split('|')[2] ?? '').split(';').flatMap((part) => {
        const words = part
          .replaceAll(/`[^`]*`,?/g, '')
          .trim()
          .split(/\s+/);
        return [...part.matchAll(/`(\w+)`/g)].map(([, field]) => `${field} ${words.join(' ')}`);
      });
    const shared = declaredIn(rowOf('all of these'));
    for (const { definition } of instance().resources) {
      const declared = definition.filters.map(
        ({ field, operators: names }) => `${field.name} ${names.join(' ')}`,
      );
      const documentation = declaredIn(rowOf(`\`${definition.name}\``));
      assert.deepEqual([...documentation, ...shared], declared);
    }
  });

  describe('every filter is served by an index', () => {
    test('leads have few indexes', () => {
      const leads = instance().resources.find(({ name }) => name === 'leads');
      assert.ok(leads);
      assert.ok(leads.entity.meta.indexes.length <= 10, `${leads.entity.meta.indexes.length}`);
    });
  });
});
