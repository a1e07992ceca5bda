// Authenticator apps (with and without JavaScript) and passkeys in a real browser, checked by axe.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { look } from '../support/axe.ts';
import { inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { codeOf } from '../support/second-factors.ts';

const settings = settingsFile({
  login: {
    second_factor: 'administrators',
    providers: {
      idp: { name: 'Example', issuer: 'https://idp.example', client_id: 'crm', client_secret: 'secret' },
    },
  },
});

const wide = { width: 1280, height: 900 };
const narrow = { width: 390, height: 844 };

inBrowser(
  'second factors in a browser',
  (world) => {
    /** Opens an administrator's browser on localhost, because passkeys require a host name. */
    const open = async (options: Parameters<ReturnType<typeof world>['open']>[0]) => {
      const acme = await world().instance.organization(fresh('acme'));
      const baseURL = world().instance.url.replace('127.0.0.1', 'localhost');
      const page = await world().open({ bypassCSP: true, baseURL, ...options });
      return { email: `admin@${acme.slug}.example`, page };
    };
    const setUp = async (page: Page): Promise<string> => {
      await page.getByRole('link', { name: 'Set up authenticator app' }).click();
      const secret = (await page.locator('code.key').textContent())?.replaceAll(' ', '') ?? '';
      await page.getByLabel('Code', { exact: true }).fill(codeOf(secret));
      return secret;
    };

    for (const viewport of [wide, narrow]) {
      test(`a required authenticator app, ${viewport.width} pixels wide`, async () => {
        const { email, page } = await open({ viewport });
        await page.goto('/setup/login');
        await page.getByRole('link', { name: 'Log in with Example' }).waitFor();
        await look(page, 'login-with-provider');
        await logIn(page, email);
        await page.getByText('requires a second factor').waitFor();
        await look(page, 'second-factor-missing');
        const secret = await setUp(page);
        await look(page, 'authenticator-app');
        // On a slow machine, the first code might have expired.
        await page.getByLabel('Code', { exact: true }).fill(codeOf(secret));
        await page.getByRole('button', { name: 'Set up authenticator app' }).click();
        await page.getByLabel('Recovery codes').waitFor();
        await look(page, 'recovery-codes');
        await page.getByRole('link', { name: 'I have saved them' }).click();
        await page.waitForURL(/\/setup\/o\//);
        await page.goto('/setup/me');
        await look(page, 'me');
        await page.getByRole('link', { name: 'Change second factor' }).click();
        await look(page, 'second-factor');
        await page.goto('/setup/me/second-factor/passkey');
        await look(page, 'passkey');
        await page.goto('/setup/me/second-factor');
        await page.getByRole('link', { name: 'Remove authenticator app' }).click();
        await look(page, 'remove-app');

        await page.context().clearCookies();
        await page.goto('/setup/login');
        await page.getByLabel('Email address').fill(email);
        await page.getByLabel('Password').fill('a long enough password');
        await page.getByRole('button', { name: 'Log in', exact: true }).click();
        await page.getByLabel('Code', { exact: true }).fill('000000');
        await page.getByRole('button', { name: 'Log in', exact: true }).click();
        await page.getByRole('alert').getByText('The code is wrong').waitFor();
        await look(page, 'second-step');
        await page.getByLabel('Code', { exact: true }).fill(codeOf(secret, 1));
        await page.getByRole('button', { name: 'Log in', exact: true }).click();
        await page.waitForURL(/\/setup\/o\//);
      });
    }

    test('an authenticator app, without JavaScript', async () => {
      const { email, page } = await open({ viewport: narrow, javaScriptEnabled: false });
      await logIn(page, email);
      assert.equal(await page.getByRole('button', { name: 'passkey' }).count(), 0);
      await setUp(page);
      await page.getByRole('button', { name: 'Set up authenticator app' }).click();
      const codes = await page.getByLabel('Recovery codes').inputValue();
      assert.equal(codes.split('\n').length, 10);
      await page.getByRole('link', { name: 'I have saved them' }).click();
      await page.waitForURL(/\/setup\/o\//);
    });

    test('a passkey alone logs in, once per challenge, and only with user verification', async () => {
      const { email, page } = await open({ viewport: wide, bypassCSP: false });
      const cdp = await page.context().newCDPSession(page);
      await cdp.send('WebAuthn.enable');
      const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
        options: {
          protocol: 'ctap2',
          transport: 'internal',
          hasResidentKey: true,
          hasUserVerification: true,
          isUserVerified: true,
          automaticPresenceSimulation: true,
        },
      });
      await logIn(page, email);
      await page.getByRole('link', { name: 'Add passkey' }).click();
      await page.getByLabel('Name').fill('Laptop');
      await page.getByRole('button', { name: 'Add passkey' }).click();
      await page.getByLabel('Recovery codes').waitFor();
      await page.getByRole('link', { name: 'I have saved them' }).click();
      await page.waitForURL(/\/setup\/o\//);

      await page.getByRole('button', { name: 'Log out', exact: true }).click();
      await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
      const button = page.getByRole('button', { name: 'Log in with a passkey' });
      await button.click();
      await page.getByRole('alert').getByText('Your browser could not use a passkey').waitFor();
      await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true });
      const sent = page.waitForRequest((request) => request.url().endsWith('/setup/login/passkey'));
      await button.click();
      await page.waitForURL(/\/setup\/o\//);
      const form = Object.fromEntries(new URLSearchParams((await sent).postData() ?? ''));

      await page.goto('/setup/me');
      await page.getByRole('cell', { name: 'Passkey' }).waitFor();
      const origin = new URL(page.url()).origin;
      const again = async (changes: Record<string, string>) => {
        const cookies = (await page.context().cookies()).filter(({ name }) => name === 'crm_csrf');
        const response = await fetch(`${origin}/setup/login/passkey`, {
          method: 'POST',
          redirect: 'manual',
          headers: {
            'sec-fetch-site': 'same-origin',
            cookie: cookies.map(({ name, value }) => `${name}=${value}`).join('; '),
          },
          body: new URLSearchParams({ ...form, ...changes }),
        });
        return response.status;
      };
      assert.equal(await again({}), 401, 'a response is accepted once');
      assert.equal(await again({ credential: '{"id":"x","response":{}}' }), 401);
      assert.equal(await again({ ticket: 'x' }), 401);
      assert.equal(await again({ credential: 'no JSON' }), 401);

      await page.goto('/setup/me/second-factor');
      await page.getByText('Laptop, last used').waitFor();
      await page.getByRole('link', { name: 'Remove Laptop' }).click();
      await page.getByRole('button', { name: 'Remove passkey' }).click();
      await page.getByRole('status').getByText('Laptop removed.').waitFor();
      await page.getByRole('button', { name: 'Log out', exact: true }).click();
      await page.getByRole('button', { name: 'Log in with a passkey' }).click();
      await page.getByRole('alert').getByText('not registered here').waitFor();
    });
  },
  { environment: settings.environment },
);
