// Repeated and concurrent actions in the admin UI: guesses, double clicks, two tabs, two administrators.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import {
  administratorOf,
  optionOf,
  problemOf,
  shownIn,
  signIn,
  type Visitor,
  visitor,
} from '../support/forms.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { dump, fresh, logIn, makePerson, type Node, secondNode } from '../support/people.ts';
import { openScreens, type Screens } from '../support/screens.ts';

/** A form, and the ID of the element that shows the secret in its response. */
interface Sent {
  readonly page: string;
  readonly form: string;
  readonly fields: Readonly<Record<string, string>>;
  readonly shows: string;
}

describe('repeated and concurrent actions in the admin UI', () => {
  let instance: Instance;
  let acme: Organization;
  let admin: Visitor;
  let screens: Screens;
  let readOnly: string;
  before(async () => {
    instance = await startInstance('postgresql');
    screens = await openScreens(instance);
    ({ acme, admin } = screens);
    readOnly = await optionOf(admin, '/setup/o/acme/keys/create', 'read-only');
  });
  after(() => instance.close());

  const key = (name: string): Sent => ({
    page: '/setup/o/acme/keys',
    form: '/setup/o/acme/keys/create',
    fields: { name, profile: readOnly, expires: 'never' },
    shows: 'plaintext',
  });

  test('limits login attempts', async () => {
    const node = await secondNode(instance);
    try {
      const person = await makePerson(instance, [{ organization: acme }]);
      const browser = visitor(node);
      const attempt = (password: string) =>
        browser.submit('/setup/login', '/setup/login', { email: person.email, password });
      for (let count = 0; count < 20; count++) assert.equal((await attempt('wrong')).status, 401);
      const answer = await attempt(person.password);
      assert.equal(answer.status, 429);
      assert.equal(problemOf(answer), 'Too many attempts. Try again in 15 minutes.');
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
    } finally {
      await node.close();
    }
  });

  test('limits password attempts of a known user with an invitation', async () => {
    const node = await secondNode(instance);
    try {
      const { path, code, email } = await screens.invitation();
      await makePerson(instance, [], { email });
      const browser = visitor(node);
      const guess = (password: string) => browser.submit(path, path, { code, password });
      for (let count = 0; count < 20; count++) assert.equal((await guess(`guess ${count}`)).status, 400);
      assert.equal((await guess('correct horse battery staple')).status, 429);
    } finally {
      await node.close();
    }
  });

  test('an invitation can be retried after an error, and is used only once', async () => {
    const { path: page, code } = await screens.invitation();
    const form = page;
    const by = visitor(instance);
    const fields = { code, password: 'one of their own' };
    assert.equal((await by.submit(page, form, { ...fields, password: 'short' })).status, 400);
    assert.equal((await by.submit(page, form, { ...fields, code: 'wrong' })).status, 400);
    const both = await Promise.all([
      by.submit(page, form, fields),
      visitor(instance).submit(page, form, { ...fields, code: code.toLowerCase() }),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [303, 400]);
  });

  test('two administrators cannot remove each other concurrently', async () => {
    const org = await instance.organization(fresh('two'));
    const second = await makePerson(instance, [{ organization: org }]);
    const one = await signIn(instance, administratorOf(org));
    const two = await signIn(instance, second);
    const remove = (by: Visitor, id: string) =>
      by.submit(`/setup/o/${org.slug}/members`, `/setup/o/${org.slug}/members/remove`, { id });
    await Promise.all([remove(one, second.id), remove(two, org.user)]);
    const rows = tablesOf(instance.database).selectFrom('crm_memberships').select('user_id');
    assert.equal((await rows.where('organization_id', '=', org.id).execute()).length, 1);
  });

  describe('a form submitted twice has one effect', () => {
    let node: Node;
    before(async () => {
      node = await secondNode(instance);
    });
    after(() => node.close());
    const twice: Readonly<Record<string, () => Promise<Sent>>> = {
      'a key': async () => key(fresh('key')),
      'a rotation': async () => ({
        page: '/setup/o/acme/keys',
        form: '/setup/o/acme/keys/rotate',
        fields: { id: (await acme.makeKey()).id, overlap: '1h' },
        shows: 'plaintext',
      }),
      'an invitation': async () => ({
        page: '/setup/o/acme/members',
        form: '/setup/o/acme/members/invite',
        fields: { email: `${fresh('guest')}@people.example`, profile: readOnly },
        shows: 'invitation-code',
      }),
      'an integration': async () => ({
        page: '/setup/o/acme/integrations',
        form: '/setup/o/acme/integrations/add',
        fields: { provider: 'whatsapp', name: fresh('number'), secret: fresh('secret') },
        shows: 'verify-token',
      }),
      'a profile': async () => ({
        page: '/setup/o/acme/profiles',
        form: '/setup/o/acme/profiles/create',
        fields: { name: fresh('profile') },
        shows: '',
      }),
      'a reset link': async () => ({
        page: '/setup/o/acme/members',
        form: '/setup/o/acme/members/reset',
        fields: { id: (await makePerson(instance, [{ organization: acme }])).id },
        shows: 'reset-code',
      }),
    };
    const again =
      'this form was already submitted. Its result was shown only once. Revoke it if you did not save it.';
    for (const [name, make] of Object.entries(twice)) {
      test(`${name}: reload`, async () => {
        const { page, form, fields, shows } = await make();
        const _csrf = await admin.token(page);
        const first = await admin.post(form, { ...fields, _csrf });
        const secret = shownIn(first, shows);
        assert.deepEqual([first.status, secret !== ''], shows === '' ? [303, false] : [200, true]);
        const before = await dump(instance);
        const second = await admin.post(form, { ...fields, _csrf });
        assert.deepEqual([second.status, problemOf(second)], [400, again]);
        assert.ok((await dump(instance)) === before);
        if (shows === '') return;
        assert.ok(!second.text.includes(secret), 'shown once');
        assert.ok(!before.includes(secret), 'never stored');
      });
      test(`${name}: concurrently on two nodes`, async () => {
        const { page, form, fields } = await make();
        const _csrf = await admin.token(page);
        const elsewhere = visitor(node);
        for (const [cookie, value] of admin.cookies) elsewhere.cookies.set(cookie, value);
        const all = [admin, elsewhere, admin, elsewhere].map((by) => by.post(form, { ...fields, _csrf }));
        const statuses = (await Promise.all(all)).map(({ status }) => status);
        assert.equal(statuses.filter((status) => status === 400).length, 3, String(statuses));
      });
    }

    test('another form on the same page can still be submitted', async () => {
      const { page, form, fields } = key(fresh('key'));
      const _csrf = await admin.token(page);
      assert.equal((await admin.post(form, { ...fields, _csrf })).status, 200);
      const { id } = await acme.makeKey();
      const rotate = '/setup/o/acme/keys/rotate';
      for (const each of [id, (await acme.makeKey()).id])
        assert.equal((await admin.post(rotate, { id: each, overlap: '1h', _csrf })).status, 200);
    });

    test('an error can be corrected on the same page', async () => {
      const { page, form, fields } = key('');
      const _csrf = await admin.token(page);
      assert.equal((await admin.post(form, { ...fields, _csrf })).status, 400);
      assert.equal((await admin.post(form, { ...fields, name: 'fixed', _csrf })).status, 200);
    });
  });

  test('two tabs: ending a session or logging out again succeeds', async () => {
    const { browser, ...person } = await screens.administrator();
    const { session } = await logIn(instance, person);
    const _csrf = await browser.token('/setup/me');
    for (const tab of ['one', 'two']) {
      const answer = await browser.post('/setup/me/end-session', { id: session, _csrf });
      assert.equal(answer.headers.get('location'), '/setup/me?done=session-ended', tab);
    }
    assert.equal((await browser.post('/setup/logout', { _csrf })).status, 303);
    const late = await browser.post('/setup/logout', { _csrf });
    assert.equal(late.headers.get('location'), '/setup/login');
  });
});
