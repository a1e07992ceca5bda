// The pages of records are in the browser's language: all words on them are German texts of the catalogues or names.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { administratorOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';

const german = { 'accept-language': 'de' };

/** Names of people and organizations in this test. */
const people = [
  ...[
    'acme',
    'admin',
    'admin API-Schlüssel',
    'admin@acme.example',
    'Ada',
    'Augusta',
    'Lovelace',
    'Hopper',
    'Grace',
  ],
  ...['Ada Hopper', 'Ada Lovelace', 'Augusta Lovelace', 'Grace Hopper'],
  ...['Hopper@example.com', 'Lovelace@example.com'],
];

onBothDrivers('the language of the pages of records', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  const ids: Record<string, string> = {};
  let names: ReadonlySet<string>;
  before(async () => {
    names = namesIn(instance(), [...people, 'Created at liegt in den letzten 7 Tagen']);
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
    for (const last_name of ['Lovelace', 'Hopper']) {
      const { json, status, text } = await instance().call('POST /api/v1/leads', {
        key: acme.key,
        body: { first_name: 'Ada', last_name, email: `${last_name}@example.com` },
      });
      assert.equal(status, 201, text);
      ids[last_name] = String(json.id);
    }
    await instance().call(`PATCH /api/v1/leads/${ids.Lovelace}`, {
      key: acme.key,
      body: { first_name: 'Augusta' },
    });
  });

  const leads = '/setup/o/acme/data/leads';
  const pages: Readonly<Record<string, () => string>> = {
    list: () => leads,
    'filtered list': () => `${leads}?last_name=nobody`,
    'list with the form of a filter': () => `${leads}?by=email`,
    'list sorted by several fields': () => `${leads}?sort=company,-last_name`,
    'list filtered by a range of days': () => `${leads}?by=created_at&created_at%5Bwithin%5D=last_7_days`,
    'record of a list': () => `${leads}/${ids.Lovelace}?list=sort%3Dlast_name`,
    'choice of a field for several records': () => `${leads}/edit?id=${ids.Lovelace}&id=${ids.Hopper}`,
    board: () => `${leads}/board`,
    record: () => `${leads}/${ids.Lovelace}`,
    'record with the form of a value': () => `${leads}/${ids.Lovelace}?edit=first_name`,
    'form for a new record': () => `${leads}/new`,
    'form of a record': () => `${leads}/${ids.Lovelace}/edit`,
    'confirmation of a deletion': () => `${leads}/${ids.Lovelace}/delete`,
    'confirmation of several deletions': () => `${leads}/delete?id=${ids.Lovelace}&id=${ids.Hopper}`,
    'form for a merge': () => `${leads}/${ids.Lovelace}/merge`,
    merge: () => `${leads}/merge?id=${ids.Lovelace}&id=${ids.Hopper}`,
    'form for a view': () => `${leads}/views/new`,
    import: () => `${leads}/import`,
    search: () => '/setup/o/acme/search?q=ada',
    'search without results': () => '/setup/o/acme/search?q=zzzz',
    'home page': () => '/setup/o/acme',
    activity: () => '/setup/o/acme/activity',
    'filtered activity': () => '/setup/o/acme/activity?by=actor',
    'keyboard shortcuts': () => '/setup/shortcuts',
  };
  describe('pages', () => {
    for (const [name, path] of Object.entries(pages))
      test(name, async () => assertGerman(await admin.get(path(), german), names));
  });

  test('the message after an action names the record', async () => {
    const path = `${leads}/${ids.Hopper}`;
    const form = await admin.submit(`${path}/edit`, `${path}/edit`, { first_name: 'Grace' });
    assert.equal(form.status, 303, problemOf(form));
    const page = await admin.get(form.headers.get('location') ?? '', german);
    assert.match(readable(page.text), /<strong>Grace Hopper<\/strong> gespeichert\./);
  });

  test('the value of several records', async () => {
    const path = `${leads}/edit`;
    const _csrf = await admin.token(`${path}?id=${ids.Hopper}`);
    const id = [String(ids.Lovelace), String(ids.Hopper)];
    const form = await admin.post(path, { _csrf, id, field: 'rating', step: 'field' }, german);
    assertGerman(form, names);
    const saved = await admin.post(path, { _csrf, id, field: 'rating', rating: 'Hot' }, german);
    const list = await admin.get(saved.headers.get('location') ?? '', german);
    assert.match(readable(list.text), /<strong>2 Leads<\/strong> geändert\./);
  });

  test('a form with errors', async () => {
    const path = `${leads}/new`;
    const { text } = await admin.get(path);
    const token = /name="_csrf" value="([^"]*)"/.exec(text)?.[1] ?? '';
    const page = await admin.post(path, { _csrf: token }, german);
    assert.equal(page.status, 400);
    assert.match(problemOf(page), /^Keine Werte eingegeben\./);
    assertGerman(page, names);
  });

  test('without a preferred language, the pages are in English', async () => {
    const page = await admin.get(leads);
    assert.equal(page.headers.get('content-language'), 'en');
    assert.match(readable(page.text), />Create lead</);
  });
});
