// Forgotten passwords and invitations in a real browser, with and without JavaScript, checked by axe.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { look } from '../support/axe.ts';
import { inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { linksIn, startMailServer } from '../support/mail.ts';
import { fresh, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { steps } from '../support/steps.ts';

const chosen = 'a password of their own';
const server = await startMailServer();
const looks = [
  { viewport: { width: 1280, height: 900 }, javaScriptEnabled: true },
  { viewport: { width: 390, height: 844 }, javaScriptEnabled: true },
] as const;

async function reset(page: Page, code: string): Promise<void> {
  await page.getByLabel('Code').fill(code);
  await page.getByLabel('New password', { exact: true }).fill(chosen);
  await page.getByLabel('Confirm new password').fill(chosen);
  await page.getByRole('button', { name: 'Reset password' }).click();
  await page.getByRole('status').getByText('Password changed.').waitFor();
}

inBrowser('users in a browser, without email', (world) => {
  const { enter, go, choose, inviteMember } = steps(world);
  for (const options of looks) {
    const { width } = options.viewport;
    test(`an invitation, a reset link and two users with one email address, ${width} pixels wide`, async () => {
      const { acme, page } = await enter({ bypassCSP: true, ...options });
      const beta = await world().instance.organization(fresh('beta'));
      const member = await makePerson(world().instance, [{ organization: beta }], { password: chosen });
      await inviteMember(page, member.email, 'administrator');
      const link = await page.getByLabel('Link', { exact: true }).inputValue();
      const code = await page.getByLabel('Code', { exact: true }).inputValue();
      await look(page, 'invited');

      const guest = await world().open({ bypassCSP: true, ...options });
      await guest.goto(link);
      await look(guest, 'invitation');
      await guest.getByLabel('Code').fill(code);
      await guest.getByRole('button', { name: 'Continue' }).click();
      await guest.getByText('Choose a password').waitFor();
      await look(guest, 'invitation-code');
      await guest.getByLabel('Your name').fill('Grace Hopper');
      await guest.getByLabel('New password').fill(chosen);
      await guest.getByRole('button', { name: 'Accept invitation' }).click();
      await guest.getByRole('status').getByText('Welcome.').waitFor();

      await guest.goto('/setup/login');
      await guest.getByLabel('Email address').fill(member.email);
      await guest.getByLabel('Password').fill(chosen);
      await guest.getByRole('button', { name: 'Log in' }).click();
      await guest.getByRole('alert').getByText('several users').waitFor();
      await look(guest, 'several-users');
      await guest.getByLabel('Organization').selectOption({ label: acme.slug });
      await guest.getByLabel('Password').fill(chosen);
      await guest.getByRole('button', { name: 'Log in' }).click();
      await guest.waitForURL(/\/setup\/o\//);

      await go(page, acme, 'members');
      await choose(page, member.email, `Reset password for ${member.email}`);
      await page.getByRole('button', { name: 'Create reset link' }).click();
      await look(page, 'reset-link');
      const resetLink = await page.getByLabel('Link', { exact: true }).inputValue();
      const resetCode = await page.getByLabel('Code', { exact: true }).inputValue();
      const other = await world().open({ bypassCSP: true, ...options });
      await other.goto(resetLink);
      await look(other, 'reset');
      await reset(other, resetCode);
    });
  }
});

inBrowser(
  'users in a browser, with email',
  (world) => {
    const { enter, inviteMember } = steps(world);
    for (const options of [...looks, { ...looks[0], javaScriptEnabled: false }]) {
      const { viewport, javaScriptEnabled } = options;
      const name = `${viewport.width} pixels wide${javaScriptEnabled ? '' : ', without JavaScript'}`;
      test(`an invitation and a forgotten password, ${name}`, async () => {
        const check = async (page: Page, name: string) => (javaScriptEnabled ? look(page, name) : undefined);
        const email = `${fresh('guest')}@people.example`;
        const mail = async (count: number) => {
          const all = () => server.arrived.filter(({ to }) => to === email);
          await until(() => all().length >= count, 'mail');
          const [link = assert.fail()] = linksIn(all()[count - 1] ?? assert.fail());
          return link;
        };
        const { page } = await enter({ bypassCSP: true, ...options });
        await inviteMember(page, email);
        await page.getByRole('status').getByText(`Invitation sent to ${email}.`).waitFor();
        await check(page, 'mailed');
        const invitation = await mail(1);
        const guest = await world().open({ bypassCSP: true, ...options });
        await guest.goto(invitation.path);
        await guest.getByLabel('Code').fill(invitation.code);
        await guest.getByRole('button', { name: 'Continue' }).click();
        await guest.getByLabel('Your name').fill('Grace Hopper');
        await guest.getByLabel('New password').fill('a password that is forgotten');
        await guest.getByRole('button', { name: 'Accept invitation' }).click();

        await guest.getByRole('link', { name: 'Forgot your password?' }).click();
        await check(guest, 'forgot');
        await guest.getByLabel('Email address').fill(email);
        await guest.getByRole('button', { name: 'Send link' }).click();
        await guest.getByRole('status').getByText('If a user with that email address exists').waitFor();
        await check(guest, 'login-with-mail');
        const { path, code } = await mail(2);
        await guest.goto(path);
        await reset(guest, code);
        await logIn(guest, email, chosen);
      });
    }
  },
  {
    environment: {
      MAIL_FROM: 'CRM <crm@people.example>',
      SMTP_URL: server.url,
      PUBLIC_URL: 'http://localhost',
    },
  },
);
