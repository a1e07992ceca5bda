// Typical tasks in the admin UI in a real browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { fresh, makePerson, soonerThan } from '../support/people.ts';
import { steps } from '../support/steps.ts';

inBrowser('the admin UI in a browser', (world) => {
  const { enter, go, makeKey, makeProfile, choose, inviteMember, statusOf, row } = steps(world);
  const reader = [{ object: '*', actions: ['list', 'read'] }] as const;

  test('a key: create, copy, use, rotate, revoke', async () => {
    const { acme, page } = await enter({ permissions: ['clipboard-read', 'clipboard-write'] });
    assert.equal(new URL(page.url()).pathname, `/setup/o/${acme.slug}`, 'the login redirects there');
    const key = await makeKey(page, 'Website');
    assert.match(key, /^crm_\w{60}$/);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), key);

    await page.reload();
    await page.getByRole('alert').getByText('this form was already submitted').waitFor();
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

    await choose(page, 'Website', 'Rotate Website');
    await page.getByLabel('Keep the old key valid for').selectOption({ label: '1 hour' });
    await page.getByRole('button', { name: 'Rotate key' }).click();
    const next = await page.getByLabel('API key', { exact: true }).inputValue();
    assert.notEqual(next, key);
    assert.deepEqual([await statusOf(key), await statusOf(next)], [200, 200]);

    for (const remaining of [1, 0]) {
      await choose(page, 'Website', 'Revoke Website');
      await page.getByText('Programs using it get 401 immediately.').waitFor();
      await page.getByRole('button', { name: 'Revoke key' }).click();
      await page.getByRole('status').getByText('Website revoked.').waitFor();
      await page.waitForLoadState();
      assert.equal(await page.getByLabel('Actions for Website').count(), remaining);
    }
    for (const revoked of [key, next]) await soonerThan(1000, async () => (await statusOf(revoked)) === 401);
    await page.getByRole('link', { name: 'Activity' }).click();
    await page.getByRole('rowheader', { name: 'API key “Website” revoked' }).first().waitFor();
    await page.getByRole('rowheader', { name: 'Lead “Ames” created' }).getByRole('link').click();
    await page.getByRole('heading', { name: 'Ames' }).waitFor();
  });

  test('a member: invite by link, reject as read-only, promote, remove', async () => {
    const { acme, page } = await enter();
    const guest = await world().open();
    const email = `${fresh('guest')}@people.example`;
    await inviteMember(page, email);
    const link = await page.getByLabel('Link', { exact: true }).inputValue();
    const code = await page.getByLabel('Code', { exact: true }).inputValue();
    assert.ok(!link.includes(code));

    await guest.goto(link);
    await guest.getByLabel('Code').fill('WRONG');
    await guest.getByRole('button', { name: 'Continue' }).click();
    await guest.getByRole('alert').getByText('cannot be used').waitFor();
    await guest.getByLabel('Code').fill(code.toLowerCase());
    await guest.getByRole('button', { name: 'Continue' }).click();
    assert.equal(await guest.getByLabel('Email address').inputValue(), email);
    await guest.getByLabel('Your name').fill('Grace Hopper');
    await guest.getByLabel('New password').fill('one of their own');
    await guest.getByRole('button', { name: 'Accept invitation' }).click();
    await guest.getByRole('status').getByText('Welcome.').waitFor();

    await logIn(guest, email, 'one of their own');
    assert.equal(new URL(guest.url()).pathname, `/setup/o/${acme.slug}`);
    for (const section of ['keys', 'members', 'profiles', 'activity']) {
      const answer = await go(guest, acme, section);
      assert.equal(answer?.status(), 403);
      await guest.getByText('Only administrators of this organization can open this page.').waitFor();
      assert.equal(await guest.getByRole('table').count(), 0);
    }

    await go(page, acme, 'members');
    await choose(page, email, 'Change profile');
    await page.getByLabel('Profile', { exact: true }).selectOption({ label: 'administrator' });
    await page.getByRole('button', { name: 'Change profile' }).click();
    await page.getByRole('status').getByText(`Profile changed for ${email}.`).waitFor();
    await soonerThan(1000, async () => (await go(guest, acme, 'keys'))?.status() === 200);
    await choose(page, email, `Remove ${email}`);
    await page.getByRole('heading', { name: `Remove ${email}?` }).waitFor();
    await page.getByRole('button', { name: 'Remove member' }).click();
    await page.getByRole('status').getByText(`${email} removed.`).waitFor();
    await soonerThan(1000, async () => (await go(guest, acme, 'keys'))?.status() === 403);
  });

  test('a profile: create, grant, and restrict a key with it', async () => {
    const { page } = await enter();
    await makeProfile(page, 'Forms');
    await choose(page, 'Forms', 'Change Forms');
    await page.getByLabel('Forms: create on leads').check();
    await page.getByRole('button', { name: 'Save profile' }).click();
    await page.getByRole('status').getByText('Forms updated.').waitFor();
    await choose(page, 'Forms', 'Change Forms');
    assert.ok(await page.getByLabel('Forms: create on leads').isChecked());
    assert.ok(!(await page.getByLabel('Forms: list on leads').isChecked()));
    const key = await makeKey(page, 'Form', 'Forms');
    const created = await world().instance.call('POST /api/v1/leads', { key, body: { last_name: 'Ames' } });
    assert.deepEqual([created.status, await statusOf(key)], [201, 403]);
  });

  test('a member of several organizations can switch between them', async () => {
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
    const goTo = async (name: string) => {
      await page.locator('.switcher summary').click();
      await page.getByRole('link', { name: `Go to ${name}` }).click();
    };
    await goTo(two.slug);
    // The same page of the other organization.
    await page.waitForURL(`**/setup/o/${two.slug}/members`);
    await page.getByText(`admin@${two.slug}.example`).waitFor();
    assert.equal(await page.getByText(`admin@${one.slug}.example`).count(), 0);
    await goTo(third.slug);
    // The home page, which every member can open.
    await page.waitForURL(`**/setup/o/${third.slug}`);
    assert.equal(await page.getByRole('link', { name: 'API keys' }).count(), 0);
    await page.locator('.switcher summary').click();
    await page.getByRole('link', { name: 'All organizations' }).click();
    await page.getByLabel('Search organizations').fill(two.slug);
    await page.getByRole('button', { name: 'Search' }).click();
    // The page that is left also has a link to the organization.
    await page.waitForURL(({ searchParams }) => [...searchParams.values()].includes(two.slug));
    await page.getByRole('link', { name: two.slug }).waitFor();
    assert.equal(await page.getByRole('link', { name: one.slug }).count(), 0);
  });
});
