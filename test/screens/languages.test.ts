// The pages before login use the browser's first language that the admin UI has, and contain no other language's words.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { problemOf, visitor } from '../support/forms.ts';
import { assertGerman } from '../support/german.ts';
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

  test('API errors stay English', async () => {
    const { json, status } = await instance().call('POST /auth/login', {
      body: { email: 'nobody@acme.example', password: 'wrong' },
      headers: german,
    });
    assert.equal(status, 401);
    assert.match(String(json.error), /^Wrong email or password/);
  });
});
