// Forms in the admin UI: allowed users and origins.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { profileId } from '../../plugins/access/profiles/profiles.ts';
import {
  administratorOf,
  formsOf,
  optionOf,
  readable,
  signIn,
  type Visitor,
  visitor,
} from '../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { delivered, integrate } from '../support/partners.ts';
import { dump, fresh, makePerson, soonerThan } from '../support/people.ts';
import { formNames, isOpen, openScreens, type Ready, type Screens, sections } from '../support/screens.ts';

describe('forms of the admin UI', () => {
  let instance: Instance;
  let acme: Organization;
  let admin: Visitor;
  let screens: Screens;
  before(async () => {
    instance = await startInstance('postgresql');
    screens = await openScreens(instance);
    ({ acme, admin } = screens);
  });
  after(() => instance.close());

  test('the table contains every form', async () => {
    await screens.invitation();
    await screens.newProfile();
    await screens.newTeam();
    await screens.newDelivery();
    await screens.newEventDelivery();
    const actions = new Set<string>();
    const visited = new Set<string>();
    /** Collects the forms on a page and on the pages it links to, visiting each kind of URL once. */
    const crawl = async (page: string, depth: number): Promise<void> => {
      const kind = page.replace(/\d+/g, 'n');
      if (visited.has(kind)) return;
      visited.add(kind);
      const answer = await admin.get(page);
      for (const { action } of formsOf(answer)) actions.add(action);
      if (depth === 0) return;
      for (const [, href = ''] of answer.text.matchAll(/href="(\/setup\/o\/acme\/(?!data\/)[\w-]+\/[^"]*)"/g))
        await crawl(readable(href), depth - 1);
    };
    for (const page of [
      '/setup/me',
      ...sections,
      '/setup/o/acme/members?show=invitations',
      '/setup/o/acme/teams?show=team-members',
    ])
      await crawl(page, 2);
    const expected = formNames.filter((form) => !/login|(invite|reset)\/$|end-session|replay-all/.test(form));
    // data.test.ts covers the forms of records.
    const others = [...actions].filter((action) => !/end-session|\/data\//.test(action));
    assert.deepEqual(others.sort(), expected.sort());
  });

  describe('forms accept only requests from their own page', () => {
    for (const form of formNames) {
      test(form, async () => {
        const own = await screens.administrator();
        const other = await screens.administrator();
        const browser = isOpen(form) ? visitor(instance) : own.browser;
        const { page, action, fields } = await screens.ready(form, own);
        const _csrf = await browser.token(page);
        const foreign = await other.browser.token('/setup/me');
        const before = await dump(instance);
        const attempts: readonly [
          name: string,
          fields: Record<string, string>,
          headers: Record<string, string>,
        ][] = [
          ['no token', {}, {}],
          ['an empty token', { _csrf: '' }, {}],
          ['a made-up token', { _csrf: 'aaaaaaaa-aaaaaaaaaaaaaaaaaaaaaaaaaaa' }, {}],
          ['another session’s token', { _csrf: foreign }, {}],
          [
            'the token without its cookie',
            { _csrf },
            { cookie: `crm_session=${browser.cookies.get('crm_session')}` },
          ],
          [
            'from another site',
            { _csrf },
            { 'sec-fetch-site': 'cross-site', origin: 'https://elsewhere.example' },
          ],
          ['from the same site', { _csrf }, { 'sec-fetch-site': 'same-site' }],
          ['without an initiator', { _csrf }, { 'sec-fetch-site': 'none' }],
          ['as plain text', { _csrf }, { 'content-type': 'text/plain' }],
        ];
        const cookies = new Map(browser.cookies);
        for (const [name, more, headers] of attempts) {
          for (const [cookie, value] of cookies) browser.cookies.set(cookie, value);
          const answer = await browser.post(action, { ...fields, ...more }, headers);
          assert.ok(
            answer.status === 403 || (name === 'as plain text' && answer.status === 415),
            `${name}: ${answer.status}`,
          );
          assert.match(answer.text, /<h1>(Forbidden|Unsupported Media Type)<\/h1>/, name);
          assert.doesNotMatch(answer.headers.getSetCookie().join(), /crm_session=/, name);
        }
        const theirs = { _csrf: foreign, ...fields };
        const mixed = { cookie: `crm_csrf=${other.browser.cookies.get('crm_csrf')}; ${session(browser)}` };
        assert.equal(
          (await browser.post(action, theirs, mixed)).status,
          403,
          'another session’s token with its cookie',
        );
        assert.equal(await dump(instance), before, 'nothing has changed');

        for (const [cookie, value] of cookies) browser.cookies.set(cookie, value);
        const sent = await browser.post(action, { ...fields, _csrf });
        assert.ok(sent.status === 200 || sent.status === 303, `with its token: ${sent.status}`);
        assert.notEqual(await dump(instance), before, 'the control has an effect');
        await screens.settled();
      });
    }
  });

  test('cross-site requests do not invalidate forms in open tabs', async () => {
    const { browser } = await screens.administrator();
    const _csrf = await browser.token('/setup/o/acme/profiles');
    // Browsers omit SameSite cookies from cross-site requests but store the response's cookies.
    const headers = { 'sec-fetch-site': 'cross-site', cookie: 'a=b' };
    assert.equal((await browser.post('/setup/logout', {}, headers)).status, 403);
    assert.equal((await browser.get('/setup/nowhere', headers)).status, 404);
    const fields = { name: fresh('profile'), _csrf };
    assert.equal((await browser.post('/setup/o/acme/profiles/create', fields)).status, 303);
  });

  const session = (browser: Visitor) => `crm_session=${browser.cookies.get('crm_session') ?? ''}`;

  test('GET and HEAD never change anything, whatever the query string', async () => {
    const paths: string[] = ['/setup', '/setup/login', '/setup/me', '/setup/logout', ...sections];
    const own = await screens.administrator();
    const _csrf = await own.browser.token('/setup/me');
    for (const form of formNames) {
      const { action, fields } = await screens.ready(form, own);
      paths.push(`${action}?${new URLSearchParams({ ...fields, _csrf })}`);
    }
    const before = await dump(instance);
    for (const path of paths) {
      const answer = await own.browser.get(path);
      assert.ok([200, 303, 404].includes(answer.status), `${path}: ${answer.status}`);
      assert.doesNotMatch(answer.headers.getSetCookie().join(), /crm_session/);
      await instance.call(`HEAD ${path}`, { headers: { cookie: session(own.browser) } });
    }
    assert.equal(await dump(instance), before);
  });

  describe('only administrators of the organization have access', () => {
    const strangers: Readonly<Record<string, () => Promise<Visitor>>> = {
      'a member who can read everything': async () => reader([{ object: '*', actions: ['list', 'read'] }]),
      'a member who has all grants on records': async () => reader([{ object: '*', actions: ['*'] }]),
      'a member who has no grants': async () => reader([]),
      'another organization’s administrator': async () =>
        signIn(instance, administratorOf({ ...acme, slug: 'beta' })),
      'a user without organizations': async () => signIn(instance, await makePerson(instance, [])),
    };
    const reader = async (grants: NonNullable<Parameters<typeof makePerson>[1][number]['grants']>) =>
      signIn(instance, await makePerson(instance, [{ organization: acme, grants }]));
    for (const [name, enter] of Object.entries(strangers)) {
      test(`rejects ${name} on every page and form`, async () => {
        const browser = await enter();
        const unknown = await browser.get('/setup/o/unknown/keys');
        const _csrf = await browser.token('/setup/me');
        const ready: Ready[] = [];
        for (const form of formNames.filter((name) => name.startsWith('/setup/o/'))) {
          ready.push(await screens.ready(form, administratorOf(acme)));
        }
        const before = await dump(instance);
        for (const page of sections) {
          const answer = await browser.get(page);
          assert.equal(answer.status, 403, page);
          const steady = ({ text }: Answer) => text.replace(/value="[^"]*"/g, '');
          // A member's page keeps the organization's navigation.
          if (!name.startsWith('a member who')) {
            assert.equal(steady(answer), steady(unknown), 'as if the organization did not exist');
          }
          assert.doesNotMatch(answer.text, /Log in<|<table/);
        }
        for (const { action, fields } of ready) {
          assert.equal((await browser.post(action, { ...fields, _csrf })).status, 403, action);
        }
        assert.equal(await dump(instance), before);
        const start = (await browser.get('/setup')).headers.get('location');
        assert.equal(
          start?.includes('acme'),
          name.startsWith('a member who'),
          'only members are redirected there',
        );
      });
    }

    test('redirects unauthenticated requests to the login page, which leads back', async () => {
      const stranger = visitor(instance);
      for (const page of ['/setup/me', ...sections]) {
        const answer = await stranger.get(`${page}?a=b`);
        assert.equal(answer.status, 303);
        const location = answer.headers.get('location') ?? '';
        assert.equal(location, `/setup/login?next=${encodeURIComponent(`${page}?a=b`)}`);
        assert.equal(formsOf(await stranger.get(location))[0]?.values.next, `${page}?a=b`);
      }
      const before = await dump(instance);
      for (const form of formNames.filter((name) => !isOpen(name))) {
        const _csrf = await stranger.token('/setup/login');
        const answer = await stranger.post(form, { _csrf });
        assert.deepEqual([answer.status, answer.headers.get('location')], [303, '/setup/login'], form);
      }
      assert.equal(await dump(instance), before);
    });

    test("rejects an administrator's API key on every page", async () => {
      for (const page of ['/setup/me', ...sections]) {
        const answer = await instance.call(`GET ${page}`, { key: acme.key });
        assert.equal(answer.status, 303, page);
      }
    });

    test('rejects IDs of another organization', async () => {
      const { browser } = await screens.administrator();
      const beta = await instance.organization(fresh('beta'));
      const profile = await profileId(tablesOf(instance.database), beta.id, 'administrator');
      const own = await optionOf(browser, '/setup/o/acme/keys/create', 'read-only');
      const key = (await beta.makeKey()).id;
      const { id: bot } = await integrate(instance, beta, 'telegram');
      const item = await delivered(instance, beta.id, bot);
      const attempts: readonly [form: string, fields: Record<string, string>][] = [
        ['keys/create', { name: 'k', profile, expires: 'never' }],
        ['keys/rotate', { id: key, overlap: '1h' }],
        ['keys/revoke', { id: key }],
        ['members/invite', { email: `${fresh('x')}@people.example`, profile }],
        ['members/change', { id: beta.user, profile: own }],
        ['members/change', { id: acme.user, profile }],
        ['members/remove', { id: beta.user }],
        ['profiles/change', { id: profile, grant: '*:*' }],
        ['profiles/delete', { id: profile }],
        ['integrations/switch', { id: bot, to: 'off' }],
        ['integrations/secrets', { id: bot, secret: 'x' }],
        ['integrations/remove', { id: bot }],
        ['deliveries/replay', { id: item }],
      ];
      const before = await dump(instance);
      for (const [form, fields] of attempts) {
        const page = `/setup/o/acme/${form.split('/')[0]}`;
        const answer = await browser.submit(page, `/setup/o/acme/${form}`, fields);
        assert.equal(answer.status, 400, form);
        assert.doesNotMatch(answer.text, /beta/);
      }
      assert.equal(await dump(instance), before);
    });

    test('a demoted administrator loses access within a second', async () => {
      const { id, browser } = await screens.administrator();
      assert.equal((await browser.get('/setup/o/acme/keys')).status, 200);
      const profile = await optionOf(admin, '/setup/o/acme/members/invite', 'read-only');
      await admin.submit('/setup/o/acme/members', '/setup/o/acme/members/change', { id, profile });
      await soonerThan(1000, async () => (await browser.get('/setup/o/acme/keys')).status === 403);
    });
  });
});
