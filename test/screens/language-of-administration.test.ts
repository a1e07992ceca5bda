// The administrative pages are in the browser's language: all words on them are German texts of the catalogues or names.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { administratorOf, optionOf, problemOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';

const german = { 'accept-language': 'de' };

/** Names of people, organizations and profiles in this test. */
const people = [
  ...['acme', 'admin', 'admin@acme.example', 'ada@acme.example', 'Ada'],
  ...['administrator', 'read-only'],
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
    return /[?&]id=(\d+)"/.exec(readable(text))?.[1] ?? assert.fail(`${path} has no row`);
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
    names = namesIn(instance(), people);
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
});
