// The administrative pages are in the browser's language: all words on them are German texts of the catalogues or names.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { resourceLabel } from '../../engine/definition/index.ts';
import { personalDataTables } from '../../engine/tables/index.ts';
import { tableLabels } from '../../plugins/tenants/erasure/table-labels.ts';
import { administratorOf, optionOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { until } from '../support/process.ts';

const german = { 'accept-language': 'de' };

/** Names of people, organizations and profiles in this test. */
const people = [
  ...['acme', 'admin', 'admin@acme.example', 'ada@acme.example', 'Ada'],
  ...['administrator', 'read-only', 'Website', 'Sales'],
];

onBothDrivers('the language of the administrative pages', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  let names: ReadonlySet<string>;
  const setup = '/setup/o/acme';
  /** IDs of the rows that the pages are about, by name. */
  const ids: Record<string, string> = {};

  /** Returns the ID of the only row in a list. */
  const idIn = async (path: string): Promise<string> => {
    const { text } = await admin.get(path);
    return /[?&]id=(\d+)/.exec(readable(text))?.[1] ?? assert.fail(`${path} has no row`);
  };
  /** Submits a form in English, and returns the page with the result in German. */
  const submit = async (path: string, fields: Readonly<Record<string, string>>): Promise<Answer> => {
    const _csrf = await admin.token(`${setup}/${path}`);
    const [action = '', query] = path.split('?');
    const hidden = Object.fromEntries(new URLSearchParams(query));
    const answer = await admin.post(`${setup}/${action}`, { _csrf, ...hidden, ...fields }, german);
    return answer.status === 303 ? admin.get(answer.headers.get('location') ?? '', german) : answer;
  };

  /** Presses a button in a list in English, and returns the list in German. */
  const press = async (list: string, action: string, fields: Readonly<Record<string, string>>) => {
    const _csrf = await admin.token(`${setup}/${list}`);
    const answer = await admin.post(`${setup}/${list}/${action}`, { _csrf, ...fields }, german);
    return answer.status === 303 ? admin.get(answer.headers.get('location') ?? '', german) : answer;
  };

  before(async () => {
    const { resources } = instance();
    const actions = ['create', 'delete', 'import', 'list', 'read', 'restore', 'update', 'merge', '*'];
    const labels = resources.map(({ definition }) => `${resourceLabel(definition)}: list, read`);
    names = new Set([
      ...namesIn(instance(), [...people, ...actions, 'list, read', labels.join('; ')]),
      ...resources.map(({ name }) => name),
    ]);
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
  });

  const assertPages = async (paths: readonly string[]) => {
    for (const path of paths) assertGerman(await admin.get(`${setup}/${path}`, german), names);
  };

  describe('members', () => {
    test('invitations', async () => {
      await assertPages(['members', 'members?show=invitations', 'members?q=nobody', 'members/invite']);
      const profile = await optionOf(admin, `${setup}/members/invite`, 'read-only');
      assertGerman(await submit('members/invite', { email: 'ada@acme.example' }), names);
      const member = await submit('members/invite', { email: 'admin@acme.example', profile });
      assert.match(problemOf(member), /^admin@acme\.example ist bereits Mitglied/);
      assertGerman(await submit('members/invite', { email: 'ada@acme.example', profile }), names);
      const id = await idIn(`${setup}/members?show=invitations`);
      await assertPages(['members?show=invitations', `members/cancel?id=${id}`]);
      const canceled = await submit(`members/cancel?id=${id}`, {});
      assert.match(
        readable(canceled.text),
        /Einladung für <strong>ada@acme\.example<\/strong> zurückgezogen\./,
      );
    });

    test('members', async () => {
      ids.admin = await idIn(`${setup}/members`);
      await assertPages(['change', 'reset', 'remove'].map((page) => `members/${page}?id=${ids.admin}`));
      const last = await submit(`members/remove?id=${ids.admin}`, {});
      assert.match(problemOf(last), /^Dies ist der letzte Administrator\./);
      assertGerman(await submit(`members/reset?id=${ids.admin}`, {}), names);
      const missing = await admin.get(`${setup}/members/change?id=999`, german);
      assert.equal(problemOf(missing), 'Dieses Mitglied existiert nicht.');
    });
  });

  test('API keys', async () => {
    const views = ['expired', 'revoked', 'all'].map((view) => `keys?show=${view}`);
    await assertPages(['keys', ...views, 'keys?q=nothing', 'keys/create']);
    const create = (fields: Readonly<Record<string, string>>) => submit('keys/create', fields);
    assert.equal(problemOf(await create({ name: 'Website' })), 'Wählen Sie aus, wann der Schlüssel abläuft.');
    assert.equal(problemOf(await create({ name: 'Website', expires: '90' })), 'Wählen Sie ein Profil aus.');
    const profile = await optionOf(admin, `${setup}/keys/create`, 'read-only');
    assertGerman(await create({ name: 'Website', expires: '90', profile }), names);
    assertGerman(await create({ name: 'Website', expires: 'never', profile }), names);
    const id = await idIn(`${setup}/keys`);
    await assertPages(['keys', `keys/rotate?id=${id}`, `keys/revoke?id=${id}`]);
    assertGerman(await submit(`keys/rotate?id=${id}`, { overlap: '1d' }), names);
    assert.match(
      readable((await submit(`keys/revoke?id=${id}`, {})).text),
      /<strong>Website<\/strong> widerrufen\. Alle Knoten/,
    );
    await assertPages(views);
    const missing = await admin.get(`${setup}/keys/rotate?id=999`, german);
    assert.equal(problemOf(missing), 'Der Schlüssel 999 existiert in dieser Organisation nicht.');
    const revoked = await admin.get(`${setup}/keys/rotate?id=${id}`, german);
    assert.equal(problemOf(revoked), '„Rotieren“ ist für Website nicht verfügbar.');
  });

  test('profiles', async () => {
    await assertPages(['profiles', 'profiles/create']);
    assertGerman(await submit('profiles/create', { name: 'Sales' }), names);
    const id = await idIn(`${setup}/profiles?q=Sales`);
    const readOnly = await idIn(`${setup}/profiles?q=read-only`);
    await assertPages([
      'profiles',
      `profiles/built-in?id=${readOnly}`,
      ...['change', 'view-as', 'delete'].map((page) => `profiles/${page}?id=${id}`),
    ]);
    const again = await submit('profiles/create', { name: 'Sales' });
    assert.equal(problemOf(again), 'Ein Profil mit dem Namen „Sales“ existiert bereits.');
    const withoutGrants = await submit(`profiles/view-as?id=${id}`, {});
    assert.equal(problemOf(withoutGrants), 'Dieses Profil darf keine Datensätze auflisten.');
    assertGerman(await submit(`profiles/delete?id=${id}`, {}), names);
  });

  test('teams', async () => {
    await assertPages(['teams', 'teams?show=team-members', 'teams/create', 'teams/add']);
    assertGerman(await submit('teams/create', { name: 'Sales' }), names);
    const team = await idIn(`${setup}/teams`);
    assert.equal(problemOf(await submit('teams/add', { team })), 'Wählen Sie ein Mitglied aus.');
    const again = await submit('teams/create', { name: 'Sales' });
    assert.equal(problemOf(again), 'Ein Team mit dem Namen „Sales“ existiert bereits.');
    const member = await optionOf(admin, `${setup}/teams/add`, 'admin@acme.example');
    assertGerman(await submit('teams/add', { team, member }), names);
    const id = await idIn(`${setup}/teams?show=team-members`);
    await assertPages([
      ...['teams', 'teams?show=team-members', `teams?show=team-members&team=${team}`],
      ...[`teams/rename?id=${team}`, `teams/delete?id=${team}`, `teams/remove?id=${id}`],
    ]);
    assert.match(
      readable((await submit(`teams/remove?id=${id}`, {})).text),
      /<strong>admin@acme\.example<\/strong> aus dem Team entfernt\./,
    );
  });

  test('connected apps', async () => {
    await assertPages(['apps', 'apps?show=ended', 'apps?show=all']);
    assertGerman(await admin.get('/setup/me/apps', german), names);
    const missing = await admin.get(`${setup}/apps/disconnect?id=999`, german);
    assert.equal(problemOf(missing), 'Die verbundene App 999 existiert nicht.');
  });

  test('organizations', async () => {
    const list = '/setup/organizations';
    for (const page of ['', '?q=nothing', '/acme/rename', '/acme/phone-numbers', '/acme/delete'])
      assertGerman(await admin.get(`${list}${page}`, german), names);
    const post = async (page: string, fields: Readonly<Record<string, string>>) => {
      const _csrf = await admin.token(`${list}/acme/${page}`);
      return admin.post(`${list}/acme/${page}`, { _csrf, ...fields }, german);
    };
    const errors = [
      ['rename', { name: 'acme', slug: 'A' }, /^„A“ ist kein gültiger Kurzname\./],
      ['phone-numbers', { country: 'XX' }, /^„XX“ ist nach ISO 3166 kein Code/],
      ['delete', { slug: 'other' }, /^Geben Sie „acme“ ein, um das Löschen zu bestätigen\.$/],
    ] as const;
    for (const [page, fields, message] of errors) {
      const answer = await post(page, fields);
      assert.match(problemOf(answer), message);
      assertGerman(answer, names);
    }
  });

  test('erasures', async () => {
    await assertPages(['forgetting', 'forgetting?q=nobody', 'forgetting/find']);
    const empty = await submit('forgetting/find', {});
    assert.match(problemOf(empty), /^Geben Sie die Datensätze der Person in der Form/);
    assertGerman(empty, names);
    const short = await submit('forgetting/find', { texts: 'ada' });
    assert.equal(problemOf(short), '„ada“ ist zu kurz. Geben Sie mindestens 5 Zeichen ein.');
    await instance().call('POST /api/v1/leads', { key: acme.key, body: { email: 'ada@erased.example' } });
    const _csrf = await admin.token(`${setup}/forgetting/find`);
    const started = await admin.post(
      `${setup}/forgetting/find`,
      { _csrf, records: 'leads?email=ada@erased.example' },
      german,
    );
    const page = started.headers.get('location') ?? '';
    let found = await admin.get(page, german);
    await until(async () => {
      found = await admin.get(page, german);
      return !found.text.includes('Suche läuft');
    }, 'the search');
    const values = ['leads', 'Datensatz 1', 'erased', 'ada@erased.example', '1', '2'];
    assertGerman(found, new Set([...names, ...values]));
    assert.match(readable(found.text), /<h1>Diese Person löschen\?<\/h1>/);
    const wrong = await submit(page.slice(setup.length + 1).replace('search', 'forget'), { word: 'erase' });
    assert.equal(problemOf(wrong), 'Geben Sie „löschen“ ein, um das Löschen zu bestätigen.');
    // The reason of a failure is in the language in which the search was started.
    const records = Array.from({ length: 101 }, () => ({ email: 'many@erased.example' }));
    await instance().call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
    const failing = await admin.post(
      `${setup}/forgetting/find`,
      { _csrf, records: 'leads?email=many@erased.example' },
      german,
    );
    let failed = await admin.get(failing.headers.get('location') ?? '', german);
    await until(async () => {
      failed = await admin.get(failing.headers.get('location') ?? '', german);
      return problemOf(failed) !== '';
    }, 'the failure');
    assert.match(problemOf(failed), /^Ausgewählt sind mehr als 100 Datensätze\./);
    const missing = await admin.get(`${setup}/forgetting/search?id=999`, german);
    assert.equal(problemOf(missing), 'Diese Suche ist abgelaufen. Starten Sie sie erneut.');
  });

  test('the tables with personal data', () => {
    const english = [...personalDataTables].map(([table, { label }]) => [table, label]);
    assert.deepEqual(
      Object.entries(tableLabels)
        .map(([table, label]) => [table, label('en')])
        .toSorted(),
      english.toSorted(),
    );
  });

  test('integrations', async () => {
    await assertPages(['integrations', 'integrations?q=nothing']);
    const channels = ['WhatsApp Cloud', 'Messenger', 'Telegram', 'Twilio', 'Meta Lead Ads'];
    const shown = new Set([
      ...names,
      ...channels,
      'App secret',
      'Auth token',
      'Secret token',
      'Page access token',
      'Line',
    ]);
    const providers = ['whatsapp', 'telegram', 'twilio', 'meta_lead_ads'];
    for (const query of ['', ...providers.map((provider) => `?provider=${provider}`)])
      assertGerman(await admin.get(`${setup}/integrations/add${query}`, german), shown);
    const add = (fields: Readonly<Record<string, string>>) =>
      submit('integrations/add?provider=whatsapp', { name: 'Line', ...fields });
    assert.equal(problemOf(await add({})), 'Geben Sie einen Wert ein: App secret.');
    assertGerman(await add({ secret: 'a secret' }), shown);
    const id = await idIn(`${setup}/integrations`);
    for (const page of ['', ...['integration', 'secrets', 'remove'].map((name) => `/${name}?id=${id}`)])
      assertGerman(await admin.get(`${setup}/integrations${page}`, german), shown);
    assert.equal(
      problemOf(await submit(`integrations/secrets?id=${id}`, {})),
      'Geben Sie ein neues Geheimnis ein.',
    );
    assertGerman(await submit(`integrations/secrets?id=${id}`, { secret: 'another' }), shown);
    assertGerman(await press('integrations', 'switch', { id, to: 'off' }), shown);
    const removed = await submit(`integrations/remove?id=${id}`, {});
    assert.match(
      readable(removed.text),
      /<strong>Line<\/strong> und alle zugehörigen Ereignisse wurden entfernt\./,
    );
    const missing = await admin.get(`${setup}/integrations/secrets?id=999`, german);
    assert.equal(problemOf(missing), 'Diese Integration existiert nicht.');
  });

  test('event subscriptions and deliveries', async () => {
    const url = 'https://events.example/hook';
    await assertPages(['events', 'events/add', 'deliveries', 'events?show=event-deliveries']);
    const empty = await submit('events/add', {});
    assert.match(problemOf(empty), /^Die URL ist nicht erlaubt\. Wählen Sie mindestens eine Ressource aus\./);
    assertGerman(empty, names);
    const profile = await optionOf(admin, `${setup}/events/add`, 'read-only');
    const input = { url, resource: 'leads', action: 'update', filter: 'status=New', profile };
    const all = new Set([...names, url, 'Leads: Geändert', 'mit status=New', 'test']);
    assertGerman(await submit('events/add', { ...input, batch_events: '5' }), all);
    const id = await idIn(`${setup}/events`);
    for (const page of ['', `/rotate?id=${id}`, `/remove?id=${id}`])
      assertGerman(await admin.get(`${setup}/events${page}`, german), all);
    assertGerman(await submit(`events/rotate?id=${id}`, {}), all);
    assertGerman(await press('events', 'test', { id }), all);
    const list = `${setup}/events?show=event-deliveries`;
    const delivery = await idIn(list);
    for (const page of ['', '&status=waiting', '&status=dead', `&owner=${id}`])
      assertGerman(await admin.get(`${list}${page}`, german), all);
    const item = `${setup}/events/item?id=${delivery}`;
    // An attempt counts from its start, and has a reason at its end.
    const hasReason = async () =>
      /Der Hostname kann nicht aufgelöst werden/.test(readable((await admin.get(item, german)).text));
    await until(hasReason, 'the reason of an attempt');
    const page = await admin.get(item, german);
    assert.match(readable(page.text), /Wird wiederholt, \d+ Versuch/);
    assertGerman(page, all);
    assertGerman(await admin.get(`${setup}/events/subscription?id=${id}`, german), all);
    const switched = await press('events', 'switch', { id, to: 'off' });
    assertGerman(switched, all);
    const disabled = await press('events', 'test', { id });
    assert.equal(problemOf(disabled), 'Das Abonnement ist deaktiviert. Aktivieren Sie es zuerst.');
    assert.match(readable((await submit(`events/remove?id=${id}`, {})).text), /wurden entfernt\./);
  });

  test('partners', async () => {
    const paths = ['inbound_leads', 'booking_forms_whatsapp'];
    const page = await admin.get(`${setup}/partners`, german);
    const values = [...readable(page.text).matchAll(/<code>([^<]*)<\/code>/g)].map(([, path = '']) => path);
    assertGerman(page, new Set([...names, ...paths, ...values, 'Zahlungen ohne Lead', 'Aus']));
    const payments = await admin.get(`${setup}/partners?show=payments`, german);
    assertGerman(payments, new Set([...names, 'Zahlungen ohne Lead']));
  });
});
