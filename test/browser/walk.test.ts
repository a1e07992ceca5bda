// The whole way through the setup screens in a real browser, as people go it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { fresh, makePerson, soonerThan } from '../support/people.ts';
import { steps } from '../support/steps.ts';

inBrowser('the setup screens in a browser', (world) => {
  const { enter, go, makeKey, statusOf, row } = steps(world);
  const reader = [{ object: '*', actions: ['list', 'read'] }] as const;

  test('a key: made, copied, used, seen as used, rotated, revoked, refused', async () => {
    const { acme, page } = await enter({ permissions: ['clipboard-read', 'clipboard-write'] });
    assert.equal(new URL(page.url()).pathname, `/setup/o/${acme.slug}/keys`, 'a login leads there');
    const key = await makeKey(page, 'Website');
    assert.match(key, /^crm_\w{60}$/);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), key);

    await page.reload();
    await page.getByRole('alert').getByText('this form was sent already').waitFor();
    assert.ok(!(await page.content()).includes(key), 'shown once');
    await go(page, acme, 'keys');
    await row(page, 'Website').getByText('never', { exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(key));

    const lead = await world().instance.call('POST /api/v1/leads', { key, body: { last_name: 'Ames' } });
    assert.equal(lead.status, 201);
    await page.reload();
    assert.equal(await row(page, 'Website').getByText('never', { exact: true }).count(), 0);
    const used = await row(page, 'Website').getByRole('time').last().count();
    assert.ok(
      used > 0 || (await row(page, 'Website').locator('time').count()) >= 2,
      '"last used" has a time',
    );

    await page.getByLabel('How long Website works on').selectOption({ label: 'old works 1 hour' });
    await page.getByRole('button', { name: 'Rotate Website' }).click();
    const next = await page.getByLabel('API key', { exact: true }).inputValue();
    assert.notEqual(next, key);
    assert.deepEqual([await statusOf(key), await statusOf(next)], [200, 200]);

    for (const left of [1, 0]) {
      await page.getByRole('button', { name: 'Revoke Website' }).first().click();
      await page.getByRole('status').getByText('The key is revoked.').waitFor();
      assert.equal(await page.getByRole('button', { name: 'Revoke Website' }).count(), left);
    }
    for (const each of [key, next]) await soonerThan(1000, async () => (await statusOf(each)) === 401);
    await page.getByRole('link', { name: 'Activity' }).click();
    await page
      .getByRole('cell', { name: /^revoke key/ })
      .first()
      .waitFor();
    await page.getByRole('cell', { name: /^create leads/ }).waitFor();
  });

  test('a member: invited by link, read-only, refused the screens, made administrator, removed', async () => {
    const { acme, page } = await enter();
    const guest = await world().open();
    const email = `${fresh('guest')}@people.example`;
    await page.getByRole('link', { name: 'Members' }).click();
    await page.getByLabel('E-mail address', { exact: true }).fill(email);
    await page.getByLabel('Profile', { exact: true }).selectOption({ label: 'read-only' });
    await page.getByRole('button', { name: 'Invite' }).click();
    const link = await page.getByLabel('Link', { exact: true }).inputValue();
    const code = await page.getByLabel('Code', { exact: true }).inputValue();
    assert.ok(!link.includes(code));

    await guest.goto(link);
    await guest.getByLabel('Code').fill('WRONG');
    await guest.getByRole('button', { name: 'Continue' }).click();
    await guest.getByRole('alert').getByText('cannot be used').waitFor();
    await guest.getByLabel('Code').fill(code.toLowerCase());
    await guest.getByRole('button', { name: 'Continue' }).click();
    assert.equal(await guest.getByLabel('E-mail address').inputValue(), email);
    await guest.getByLabel('New password').fill('one of their own');
    await guest.getByRole('button', { name: 'Accept invitation' }).click();
    await guest.getByRole('status').getByText('Welcome.').waitFor();

    await logIn(guest, email, 'one of their own');
    assert.equal(new URL(guest.url()).pathname, '/setup/me');
    for (const section of ['keys', 'members', 'profiles', 'activity']) {
      const answer = await go(guest, acme, section);
      assert.equal(answer?.status(), 403);
      await guest.getByText('Only administrators of this organization come here.').waitFor();
      assert.equal(await guest.getByRole('table').count(), 0);
    }

    await go(page, acme, 'members');
    await page.getByLabel(`Profile of ${email}`, { exact: true }).selectOption({ label: 'administrator' });
    await page.getByRole('button', { name: `Change the profile of ${email}` }).click();
    await page.getByRole('status').getByText('The member has another profile.').waitFor();
    await soonerThan(1000, async () => (await go(guest, acme, 'keys'))?.status() === 200);
    await page.getByRole('button', { name: `Remove ${email}` }).click();
    await page.getByRole('status').getByText('The member is removed.').waitFor();
    await soonerThan(1000, async () => (await go(guest, acme, 'keys'))?.status() === 403);
  });

  test('a profile: made, ticked, and a key with it does just that', async () => {
    const { acme, page } = await enter();
    await go(page, acme, 'profiles');
    await page.getByLabel('Name', { exact: true }).fill('Forms');
    await page.getByRole('button', { name: 'Make profile' }).click();
    await page.getByLabel('Forms: create on leads').check();
    await page.getByRole('button', { name: 'Save Forms' }).click();
    await page.getByRole('status').getByText('The profile is changed.').waitFor();
    assert.ok(await page.getByLabel('Forms: create on leads').isChecked());
    assert.ok(!(await page.getByLabel('Forms: list on leads').isChecked()));
    await go(page, acme, 'keys');
    const key = await makeKey(page, 'Form', 'Forms');
    const created = await world().instance.call('POST /api/v1/leads', { key, body: { last_name: 'Ames' } });
    assert.deepEqual([created.status, await statusOf(key)], [201, 403]);
  });

  test('somebody in two organizations goes from one to the other, and to no third', async () => {
    const { instance, open } = world();
    const [one, two, third] = [
      await instance.organization(fresh('one')),
      await instance.organization(fresh('two')),
      await instance.organization(fresh('third')),
    ];
    const person = await makePerson(instance, [
      { organization: one },
      { organization: two },
      { organization: third, grants: reader },
    ]);
    const page = await open();
    await logIn(page, person.email, person.password);
    await page.getByRole('link', { name: 'Members' }).click();
    await page
      .getByRole('cell', { name: `admin@${one.slug}.example` })
      .or(page.getByRole('rowheader'))
      .first()
      .waitFor();
    await page.getByRole('link', { name: `Go to ${two.slug}` }).click();
    assert.equal(new URL(page.url()).pathname, `/setup/o/${two.slug}/members`, 'the same page there');
    await page.getByText(`admin@${two.slug}.example`).waitFor();
    assert.equal(await page.getByText(`admin@${one.slug}.example`).count(), 0);
    await page.getByRole('link', { name: `Go to ${one.slug}` }).waitFor();
    assert.equal(await page.getByRole('link', { name: third.slug }).count(), 0);
  });
});
