// People's names: entered at invitation and on the account page, shown on pages instead of the email address.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  administratorOf,
  optionOf,
  problemOf,
  readable,
  shownIn,
  signIn,
  type Visitor,
  visitor,
} from '../../support/forms.ts';
import { type Organization, onBothDrivers } from '../../support/instance.ts';
import { fresh, logIn, makePerson, type Person } from '../../support/people.ts';

const password = 'correct horse battery staple';

onBothDrivers('names of people', (instance) => {
  let acme: Organization;
  let admin: Visitor;
  before(async () => {
    acme = await instance().organization('acme');
    admin = await signIn(instance(), administratorOf(acme));
  });

  /** Invites a person, and returns the page on which they accept the invitation. */
  const invite = async (email: string, name = '', by = admin) => {
    const page = `/setup/o/${acme.slug}/members`;
    const profile = await optionOf(by, `${page}/invite`, 'administrator');
    const answer = await by.submit(page, `${page}/invite`, { email, name, profile });
    assert.equal(answer.status, 200, problemOf(answer));
    const path = new URL(shownIn(answer, 'link')).pathname;
    const code = shownIn(answer, 'invitation-code');
    const guest = visitor(instance());
    const form = await guest.submit(path, path, { code });
    const accept = async (fields: Readonly<Record<string, string>>) =>
      guest.post(path, { _csrf: await guest.token(path), code, password, ...fields });
    return { form: form.text, accept };
  };
  const userOf = async (email: string) =>
    (await instance().call('POST /auth/login', { body: { email, password } })).json.user;

  test('an invited person enters a name, which login and /auth/me return', async () => {
    const email = `${fresh('guest')}@people.example`;
    const { form, accept } = await invite(email);
    assert.match(form, /name="name"[^>]* value="" required/);
    assert.ok(readable(form).includes('admin@acme.example has invited you'), form);
    assert.equal((await accept({ name: '  Ada Lovelace ' })).status, 303);
    const user = (await userOf(email)) as { id: number };
    assert.deepEqual(user, { id: user.id, email, name: 'Ada Lovelace' });
    const { byToken } = await logIn(instance(), { email, password });
    const me = await instance().call('GET /auth/me', { headers: byToken });
    assert.deepEqual(me.json.user, user);
  });

  test('the inviter can suggest the name', async () => {
    const email = `${fresh('guest')}@people.example`;
    const inviter = await makePerson(instance(), [{ organization: acme }]);
    const by = await signIn(instance(), inviter);
    await by.submit('/setup/me', '/setup/me/name', { name: 'Ada <i>& Sons' });
    const { form, accept } = await invite(email, 'Grace Hopper', by);
    assert.match(form, /name="name"[^>]* value="Grace Hopper" required/);
    assert.ok(form.includes(`Ada &lt;i&gt;&amp; Sons (${inviter.email}) has invited you`), form);
    const rejected = await accept({ name: 'Grace', password: 'short' });
    assert.equal(rejected.status, 400);
    assert.match(rejected.text, /name="name"[^>]* value="Grace" required/, 'the form keeps the name');
  });

  test('an invitation accepted by a program without a name leaves the user without a name', async () => {
    const email = `${fresh('guest')}@people.example`;
    const { accept } = await invite(email);
    assert.equal((await accept({})).status, 303);
    const user = (await userOf(email)) as { id: number };
    assert.deepEqual(user, { id: user.id, email });
  });

  test('an existing user enters a missing name, but no other one, with an invitation', async () => {
    const beta = await instance().organization(fresh('beta'));
    const { email } = await makePerson(instance(), [{ organization: beta }], { password, verified: true });
    const first = await invite(email);
    assert.match(first.form, /name="name"[^>]* value="" required/);
    assert.equal((await first.accept({ name: 'Ada Lovelace' })).status, 303);
    const user = (await userOf(email)) as { id: number };
    assert.deepEqual(user, { id: user.id, email, name: 'Ada Lovelace' });
    const members = `/setup/o/${acme.slug}/members`;
    await admin.submit(members, `${members}/remove`, { id: String(user.id) });
    const second = await invite(email, 'Grace Hopper');
    assert.doesNotMatch(second.form, /name="name"/);
    assert.equal((await second.accept({})).status, 303);
    assert.deepEqual(await userOf(email), user);
  });

  const invalidNames = {
    'an empty name': ['   ', 'the name must have 1 to 100 characters'],
    'a name of 101 characters': ['x'.repeat(101), 'the name must have 1 to 100 characters'],
    'a name with a line break': ['Ada\nLovelace', /must not contain line breaks/],
    'a name that changes the text direction': ['Ada\u202e', /found U\+202E/],
  } as const;
  for (const [title, [name, message]] of Object.entries(invalidNames)) {
    test(`${title} is rejected in an invitation, when it is accepted, and on the account page`, async () => {
      const email = `${fresh('guest')}@people.example`;
      const { accept } = await invite(email);
      const person = await makePerson(instance(), [{ organization: acme }]);
      const browser = await signIn(instance(), person);
      const members = `/setup/o/${acme.slug}/members`;
      const profile = await optionOf(admin, `${members}/invite`, 'read-only');
      for (const answer of [
        await accept({ name }),
        await browser.submit('/setup/me', '/setup/me/name', { name }),
        // In an invitation, the name is optional.
        ...(name.trim() === ''
          ? []
          : [await admin.submit(members, `${members}/invite`, { email, name, profile })]),
      ]) {
        assert.equal(answer.status, 400);
        if (typeof message === 'string') assert.equal(problemOf(answer).toLowerCase(), message.toLowerCase());
        else assert.match(problemOf(answer), message);
      }
      assert.equal((await accept({ name: 'Ada' })).status, 303, 'the invitation is still open');
    });
  }

  test('a changed name appears on every page instead of the email address', async () => {
    const person: Person = await makePerson(instance(), [{ organization: acme }]);
    const browser = await signIn(instance(), person);
    const { byToken } = await logIn(instance(), person);
    const record = await instance().call('POST /api/v1/accounts', {
      headers: byToken,
      body: { name: 'Acme' },
    });
    const id = String(record.json.id);
    const pageText = async (path: string) =>
      readable((await browser.get(path)).text).replace(/<span class="avatar[^>]*>[^<]*<\/span>/g, '');
    const recordPage = `/setup/o/${acme.slug}/data/accounts/${id}`;
    assert.match(await pageText(recordPage), new RegExp(`<dt>Owner</dt><dd>${person.email}</dd>`));

    const name = 'Ada & Sons';
    const saved = await browser.submit('/setup/me', '/setup/me/name', { name });
    assert.equal(saved.headers.get('location'), '/setup/me?done=name-changed');
    assert.match(
      await pageText('/setup/me?done=name-changed'),
      /Name saved\.[\s\S]* value="Ada & Sons" required/,
    );
    const both = `${name}<span class="below">${person.email}</span>`;
    const shown = await pageText(recordPage);
    for (const label of ['Owner', 'Created by', 'Last modified by'])
      assert.ok(shown.includes(`<dt>${label}</dt><dd>${both}</dd>`), label);
    assert.ok(shown.includes(`Created by <span title="${person.email}">${name}</span>`), 'history');
    const list = await pageText(`/setup/o/${acme.slug}/data/accounts?columns=owner_id`);
    assert.ok(list.includes(both), 'list');
    for (const section of ['members', 'activity'])
      assert.ok((await pageText(`/setup/o/${acme.slug}/${section}`)).includes(both), section);
    assert.match(await pageText(`/setup/o/${acme.slug}/activity`), /Name changed/);
    // The change log keeps the name that the API has always returned.
    const history = await instance().call(`GET /api/v1/accounts/${id}/history`, { headers: byToken });
    const [change] = history.json.data as { actor: { name: string } }[];
    assert.equal(change?.actor.name, person.email);
  });
});
