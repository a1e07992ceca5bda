// The pages before login use the browser's first language that the admin UI has, and contain no other language's words.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { administratorOf, problemOf, signIn, visitor } from '../support/forms.ts';
import { assertGerman, namesIn } from '../support/german.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';

const german = { 'accept-language': 'de-AT,de;q=0.9,en;q=0.8' };

onBothDrivers('languages', (instance) => {
  let acme: Organization;
  before(async () => {
    acme = await instance().organization('acme');
  });

  describe('pages before login are in German', () => {
    const messages = ['logged-out', 'reset-mailed', 'password-reset', 'invite-accepted'];
    for (const path of [
      '/setup/login',
      ...messages.map((code) => `/setup/login?done=${code}`),
      '/setup/forgot',
      '/setup/reset/unknown',
      '/setup/invite/unknown',
    ])
      test(path, async () => assertGerman(await visitor(instance()).get(path, german)));

    test('the error after a wrong password', async () => {
      const browser = visitor(instance());
      const form = {
        _csrf: await browser.token('/setup/login'),
        email: `nobody@${acme.slug}.example`,
        password: 'wrong',
      };
      const page = await browser.post('/setup/login', form, german);
      assert.equal(page.status, 401);
      assert.equal(problemOf(page), 'Die E-Mail-Adresse oder das Passwort ist falsch.');
      assertGerman(page);
    });

    test('the error after different new passwords', async () => {
      const browser = visitor(instance());
      const path = '/setup/reset/unknown';
      const form = {
        _csrf: await browser.token(path),
        code: 'x',
        new: 'one password',
        again: 'another password',
      };
      const page = await browser.post(path, form, german);
      assert.equal(page.status, 400);
      assertGerman(page);
    });
  });

  describe('the language', () => {
    const cases = [
      [undefined, 'en'],
      ['', 'en'],
      ['fr', 'en'],
      ['fr,de;q=0.5', 'de'],
      ['de;q=0.2,en;q=0.7', 'en'],
      ['DE', 'de'],
      ['de;q=0', 'en'],
      ['de;q=x', 'en'],
      ['*', 'en'],
      ['"<script>', 'en'],
    ] as const;
    for (const [header, language] of cases)
      test(`is ${language} if the browser sends ${header ?? 'none'}`, async () => {
        const headers = header === undefined ? {} : { 'accept-language': header };
        const page = await visitor(instance()).get('/setup/login', headers);
        assert.equal(page.headers.get('content-language'), language);
        assert.ok(page.text.includes(`<html lang="${language}">`));
        assert.ok(page.text.includes(language === 'de' ? '>Anmelden<' : '>Log in<'));
      });
  });

  describe('the language in the account', () => {
    /** Names, and values stored as text. */
    const others = [
      ...['acme', 'admin@acme.example', '(acme), als administrator', 'English', 'Deutsch', 'node', 'Node.js'],
      ...['Node.js (diese Sitzung)', 'Password'],
    ];

    test('the pages of the account are in German', async () => {
      const admin = await signIn(instance(), administratorOf(acme));
      const names = namesIn(instance(), others);
      for (const path of [
        '/setup/me',
        ...['session-ended', 'name-changed', 'language-changed', 'password-changed'].map(
          (code) => `/setup/me?done=${code}`,
        ),
        '/setup/me/second-factor',
        '/setup/me/second-factor/passkey',
        '/setup/me/second-factor/recovery-codes',
        '/setup/me/second-factor/remove-app',
      ])
        assertGerman(await admin.get(path, german), names);
      const { text } = await admin.get('/setup/me/second-factor/app', german);
      assert.match(text, /Scannen Sie diesen Code/);
    });

    test('it replaces the language of the browser until the browser decides again', async () => {
      const admin = await signIn(instance(), administratorOf(acme));
      const languageOf = async (headers = {}) =>
        (await admin.get('/setup/o/acme/data/leads', headers)).headers.get('content-language');
      const choose = async (language: string) => {
        const answer = await admin.submit('/setup/me', '/setup/me/language', { language });
        assert.equal(answer.status, 303, problemOf(answer));
        return admin.get(answer.headers.get('location') ?? '');
      };
      assert.deepEqual([await languageOf(), await languageOf(german)], ['en', 'de']);
      const page = await choose('de');
      assert.match(page.text, /Sprache gespeichert\./);
      assert.match(page.text, /<option value="de" selected>Deutsch</);
      assert.deepEqual([await languageOf(), await languageOf({ 'accept-language': 'en' })], ['de', 'de']);
      await choose('en');
      assert.equal(await languageOf(german), 'en');
      for (const other of ['', 'fr', '<script>']) {
        await choose('en');
        await choose(other);
        assert.deepEqual([await languageOf(), await languageOf(german)], ['en', 'de'], other);
      }
    });

    test('numbers have the form of this language', async () => {
      const admin = await signIn(instance(), administratorOf(acme));
      const { json } = await instance().call('POST /api/v1/opportunities', {
        key: acme.key,
        body: { name: 'Roof', amount: 1234.5 },
      });
      const path = `/setup/o/acme/data/opportunities/${json.id}`;
      await admin.submit('/setup/me', '/setup/me/language', { language: 'de' });
      assert.match((await admin.get(path, { 'accept-language': 'en' })).text, /1\.234,5/);
      await admin.submit('/setup/me', '/setup/me/language', { language: '' });
      assert.match((await admin.get(path, { 'accept-language': 'en' })).text, /1,234\.5/);
    });
  });

  test('API errors stay English', async () => {
    const { json, status } = await instance().call('POST /auth/login', {
      body: { email: 'nobody@acme.example', password: 'wrong' },
      headers: german,
    });
    assert.equal(status, 401);
    assert.match(String(json.error), /^Wrong email or password/);
  });
});
