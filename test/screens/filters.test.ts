// Filters of record lists: a control that suits the field, values converted as users enter them, and names instead of IDs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import { sourcesWith } from '../support/sources.ts';

/** A resource with the operators of lists. */
const plots = {
  file: 'plots.yaml',
  text: `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  features: { type: list }
filters: [{ field: features, operators: [any, all] }]
`,
};

let instance: Instance;
let acme: Organization;
let admin: Visitor;
let account: string;
before(async () => {
  instance = await startInstance('postgresql', { sources: await sourcesWith(plots) });
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
  account = await make('accounts', { name: 'Initech' });
  await make('accounts', { name: 'Umbrella North' });
  await make('accounts', { name: 'Umbrella South' });
  await make('opportunities', { name: 'Printers', account_id: Number(account) });
  await make('leads', { last_name: 'Ames', rating: 'Hot', source: 'Website' });
});
after(() => instance.close());

const data = '/setup/o/acme/data';
const make = async (resource: string, body: object): Promise<string> => {
  const made = await instance.call(`POST /api/v1/${resource}`, { key: acme.key, body });
  assert.equal(made.status, 201, made.text);
  return String(made.json.id);
};
/** Returns the filter form on a page. */
const formIn = ({ text }: Answer): string =>
  readable(/<form role="search" aria-label="Filter"[\s\S]*?<\/form>/.exec(text)?.[0] ?? '');
const optionsIn = (html: string, id: string): string[] =>
  [
    ...(
      new RegExp(`<(?:select|datalist) id="${id}"[^>]*>(.*?)</(?:select|datalist)>`).exec(html)?.[1] ?? ''
    ).matchAll(/<option value="([^"]*)"[^>]*>/g),
  ].map(([, value = '']) => value);
const chipsIn = ({ text }: Answer): string[] =>
  [...text.matchAll(/aria-label="Remove the filter ([^"]*)"/g)].map(([, label = '']) => readable(label));
const enter = async (resource: string, by: string, value: string): Promise<Answer> =>
  admin.get(`${data}/${resource}?${new URLSearchParams({ by, value })}`);
/** Enters a filter and returns the list's query string and the chips. */
const entered = async (resource: string, by: string, value: string) => {
  const answer = await enter(resource, by, value);
  assert.equal(answer.status, 303, answer.text);
  const location = answer.headers.get('location') ?? '';
  const list = await admin.get(location);
  assert.equal(list.status, 200, location);
  return [decodeURIComponent(location.split('?')[1] ?? ''), ...chipsIn(list)];
};

test('the menu lists the fields, and each field has its own control', async () => {
  const list = await admin.get(`${data}/leads?q=ames`);
  assert.doesNotMatch(list.text, /aria-label="Filter"/);
  assert.match(list.text, /<a href="[^"]*\?q(&#x3D;|=)ames&amp;by(&#x3D;|=)rating">Rating<\/a>/);
  const rating = formIn(await admin.get(`${data}/leads?q=ames&by=rating`));
  assert.deepEqual(optionsIn(rating, 'filter-by'), ['rating[eq]', 'rating[ne]']);
  assert.deepEqual(optionsIn(rating, 'in-value'), ['Hot', 'Warm', 'Cold'], 'only values of this field');
  assert.match(rating, /<input type="hidden" name="q" value="ames">/);
  const owner = formIn(await admin.get(`${data}/leads?by=owner_id`));
  assert.deepEqual(optionsIn(owner, 'filter-by'), [
    'owner_id[eq]',
    'owner_id[is_null]=true',
    'owner_id[is_null]=false',
  ]);
  assert.deepEqual(optionsIn(owner, 'in-value'), ['me', acme.user]);
  const reference = formIn(await admin.get(`${data}/opportunities?by=account_id`));
  assert.ok(optionsIn(reference, 'list-value').includes(`Initech (${account})`));
  assert.match(
    reference,
    / aria-describedby="notes-value"[^>]*>.*id="notes-value"><p>A name or an ID\.<\/p>/,
  );
  const source = formIn(await admin.get(`${data}/leads?by=source`));
  assert.ok(optionsIn(source, 'list-value').includes('Referral'));
  assert.match(formIn(await admin.get(`${data}/leads?by=created_at`)), /<input type="date" id="in-value"/);
});

test('values are accepted as users enter them', async () => {
  assert.deepEqual(await entered('leads', 'rating[eq]', 'hot'), ['rating[eq]=Hot', 'Rating is Hot']);
  assert.deepEqual(await entered('leads', 'source', 'WEBSITE '), ['source=Website', 'Source is Website']);
  assert.deepEqual(await entered('opportunities', 'account_id[eq]', 'initech'), [
    `account_id[eq]=${account}`,
    'Account is Initech',
  ]);
  assert.deepEqual(await entered('opportunities', 'account_id', `Initech (${account})`), [
    `account_id=${account}`,
    'Account is Initech',
  ]);
  assert.deepEqual(await entered('opportunities', 'account_id[is_null]=false', 'ignored'), [
    'account_id[is_null]=false',
    'Account is not empty',
  ]);
  assert.deepEqual(await entered('leads', 'created_at[lte]', '2026-03-01'), [
    'created_at[lte]=2026-03-01T23:59:59.999999Z',
    'Created at is on or before Mar 1, 2026',
  ]);
  assert.deepEqual(await entered('leads', 'created_at[gte]', '2026-03-01'), [
    'created_at[gte]=2026-03-01T00:00:00Z',
    'Created at is on or after Mar 1, 2026',
  ]);
  assert.deepEqual(await entered('leads', 'created_at[gt]', '2026-03-01'), [
    'created_at[gt]=2026-03-01T23:59:59.999999Z',
    'Created at is after Mar 1, 2026',
  ]);
  assert.deepEqual(await entered('leads', 'created_at[lt]', '2026-03-01'), [
    'created_at[lt]=2026-03-01T00:00:00Z',
    'Created at is before Mar 1, 2026',
  ]);
  const [exact, chip = ''] = await entered('leads', 'created_at[lt]', '2026-03-01 09:30');
  assert.equal(exact, 'created_at[lt]=2026-03-01T09:30:00Z');
  assert.match(chip, /^Created at is before Mar 1, 2026, 9:30\sAM$/);
});

test('operators and ranges of days are named in both languages', async () => {
  const compared = ['gt', 'gte', 'lt', 'lte'].map((operator) => `[${operator}]`);
  const ranges = [
    ...['today', 'last_7_days', 'last_30_days', 'this_month', 'last_month', 'this_year'],
    ...['next_7_days', 'next_30_days', 'past'],
  ].map((range) => `[within]=${range}`);
  const nulls = ['[is_null]=true', '[is_null]=false'];
  const cases: readonly (readonly [
    string,
    readonly string[],
    en: readonly string[],
    de: readonly string[],
  ])[] = [
    ['leads/rating', ['[eq]', '[ne]'], ['is', 'is not'], ['ist', 'ist nicht']],
    [
      'leads/company',
      ['[in]', '[starts_with]', '[contains]'],
      ['is one of', 'starts with', 'contains'],
      ['ist einer von', 'beginnt mit', 'enthält'],
    ],
    [
      'leads/lead_score',
      compared,
      ['is greater than', 'is at least', 'is less than', 'is at most'],
      ['ist größer als', 'ist mindestens', 'ist kleiner als', 'ist höchstens'],
    ],
    [
      'opportunities/close_date',
      [...compared, ...nulls, ...ranges],
      [
        ...['is after', 'is on or after', 'is before', 'is on or before', 'is empty', 'is not empty'],
        ...['is today', 'is in the last 7 days', 'is in the last 30 days', 'is this month', 'was last month'],
        ...['is this year', 'is in the next 7 days', 'is in the next 30 days', 'is before today'],
      ],
      [
        ...['liegt nach dem', 'liegt am oder nach dem', 'liegt vor dem', 'liegt am oder vor dem'],
        ...['ist leer', 'ist nicht leer', 'ist heute', 'liegt in den letzten 7 Tagen'],
        ...['liegt in den letzten 30 Tagen', 'liegt in diesem Monat', 'liegt im letzten Monat'],
        ...['liegt in diesem Jahr', 'liegt in den nächsten 7 Tagen', 'liegt in den nächsten 30 Tagen'],
        'liegt vor heute',
      ],
    ],
    [
      'plots/features',
      ['[any]', '[all]'],
      ['contains any of', 'contains all of'],
      ['enthält mindestens einen von', 'enthält alle von'],
    ],
  ];
  for (const [path, operators, ...labels] of cases) {
    const [resource, field = ''] = path.split('/');
    for (const [index, language] of ['en', 'de'].entries()) {
      const page = await admin.get(`${data}/${resource}?by=${field}`, { 'accept-language': language });
      const [, options = ''] = /<select id="filter-by"[^>]*>([\s\S]*?)<\/select>/.exec(page.text) ?? [];
      const named = [...options.matchAll(/<option value="([^"]*)"[^>]*>([^<]*)</g)];
      assert.deepEqual(
        named.map(([, value = '', label = '']) => [readable(value), readable(label).trim()]),
        operators.map((operator, position) => [`${field}${operator}`, labels[index]?.[position]]),
      );
    }
  }
});

test('a filter for a record that does not exist names its ID, as for a record of another organization', async () => {
  const other = await instance.organization('other');
  const body = { name: 'Secret' };
  const { json } = await instance.call('POST /api/v1/accounts', { key: other.key, body });
  for (const id of ['999999', String(json.id)])
    assert.deepEqual(await entered('opportunities', 'account_id', id), [
      `account_id=${id}`,
      `Account is ID ${id}`,
    ]);
});

test('a filter that is not valid can be removed, and the operator of a link is selected', async () => {
  const page = await admin.get(`${data}/opportunities?account_id=9999999999999999999`);
  assert.equal(page.status, 400, page.text);
  assert.deepEqual(chipsIn(page), ['Account is ID 9999999999999999999']);
  const form = formIn(await admin.get(`${data}/leads?by=created_at[lte]`));
  assert.match(form, /<option value="created_at\[lte\]" selected>/);
});

test('the first 20 filters have a link that removes them, and one link removes all others', async () => {
  const url = (count: number) => {
    const parameters = new URLSearchParams({ q: 'ames' });
    for (let index = 0; index < count; index++) parameters.append('company[contains]', `x${index}`);
    return `${data}/leads?${parameters}`;
  };
  const othersIn = ({ text }: Answer) =>
    /<a [^>]*href="([^"]*)"[^>]*aria-label="Remove (\d more filters?)"/.exec(text);
  for (const [count, label] of [
    [21, '1 more filter'],
    [22, '2 more filters'],
  ] as const) {
    const list = await admin.get(url(count));
    const [, href = '', found] = othersIn(list) ?? assert.fail(list.text.slice(0, 20_000));
    assert.deepEqual([found, readable(href), chipsIn(list).length], [label, url(20), 20]);
  }
  assert.equal(othersIn(await admin.get(url(20))), null);
});

test('an added filter keeps the search and the order, and leads to the first page', async () => {
  for (const position of ['page=2', 'cursor=x', 'before=x']) {
    const query = `q=ames&sort=last_name&${position}&by=rating[eq]&value=hot`;
    const answer = await admin.get(`${data}/leads?${query}`);
    assert.equal(answer.status, 303, answer.text);
    const [, added = ''] = (answer.headers.get('location') ?? '').split('?');
    assert.equal(decodeURIComponent(added), 'q=ames&sort=last_name&rating[eq]=Hot', position);
  }
  const blank = await admin.get(`${data}/leads?q=ames&by=rating[eq]&value=+`);
  assert.equal(blank.headers.get('location'), `${data}/leads?q=ames`, 'a blank value adds no filter');
});

test('a name that does not identify one record is rejected below the control', async () => {
  for (const [value, problem] of [
    ['umbrella', 'Several accounts match. Choose one from the list.'],
    ['nowhere', 'No account found.'],
  ] as const) {
    const answer = await enter('opportunities', 'account_id[eq]', value);
    assert.equal(answer.status, 400);
    const form = formIn(answer);
    assert.ok(form.includes(`<p class="error">${problem}</p>`), form);
    assert.match(form, new RegExp(` value="${value}"`));
  }
});

test('filters name members, and no users of other organizations', async () => {
  assert.deepEqual(await entered('leads', 'owner_id[eq]', 'me'), ['owner_id[eq]=me', 'Owner is me']);
  assert.deepEqual(await entered('leads', 'owner_id', acme.user), [
    `owner_id=${acme.user}`,
    'Owner is admin@acme.example',
  ]);
  const beta = await instance.organization('beta');
  assert.deepEqual(await entered('leads', 'owner_id', beta.user), [
    `owner_id=${beta.user}`,
    `Owner is ID ${beta.user}`,
  ]);
});

test('a filter does not reveal the title of a record that the member cannot read', async () => {
  const grants = [{ object: 'opportunities', actions: ['list', 'read'] }] as const;
  const reader = await signIn(instance, await makePerson(instance, [{ organization: acme, grants }]));
  const list = await reader.get(`${data}/opportunities?account_id=${account}`);
  assert.deepEqual(chipsIn(list), [`Account is ${account}`]);
  const form = formIn(await reader.get(`${data}/opportunities?by=account_id`));
  assert.deepEqual(optionsIn(form, 'list-value'), []);
});
