// The administrative pages are in the browser's language: all words on them are German texts of the catalogues or names.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { resourceLabel } from '../../engine/definition/index.ts';
import { administratorOf, optionOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';

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
});
