// The admin UI with hostile names, without JavaScript, with only a keyboard and on a phone.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { inBrowser } from '../support/browser.ts';
import { fresh, makePerson } from '../support/people.ts';
import { steps } from '../support/steps.ts';

inBrowser('the admin UI under all conditions', (world) => {
  const { enter, go, makeKey, makeProfile, choose, addIntegration, fillWebhooks, statusOf, row } =
    steps(world);
  const sections = [
    '',
    'keys',
    'members',
    'profiles',
    'activity',
    'integrations',
    'deliveries',
    'partners?show=payments',
  ];

  test('names are never rendered as markup or script', async () => {
    const evil = '"\'><img src=x onerror=alert(1)><script>alert(2)</script>{{constructor}}';
    const address = '"><img/src=x/onerror=alert(3)>@people.example';
    const { acme, page } = await enter({ userAgent: `Evil/1 ${evil}` });
    const rows = tablesOf(world().instance.database);
    await rows.updateTable('crm_organizations').set({ name: evil }).where('id', '=', acme.id).execute();
    const { id } = await makePerson(world().instance, [{ organization: acme }]);
    // New email addresses like this are rejected, but older rows might contain one.
    await rows.updateTable('crm_users').set({ email: address }).where('id', '=', id).execute();
    await makeProfile(page, evil);
    await makeKey(page, evil, evil);
    const { key } = await acme.makeKey();
    await rows
      .updateTable('crm_api_keys')
      .set({ name: evil })
      .where('organization_id', '=', acme.id)
      .execute();
    await world().instance.call('POST /api/v1/leads', { key, body: { last_name: evil } });
    await page.waitForLoadState();
    assert.ok((await row(page, evil).count()) > 0, 'shown literally');
    const account = await world().instance.call('POST /api/v1/accounts', { key, body: { name: evil } });
    const body = { name: evil, stage: evil, description: evil, account_id: account.json.id };
    const { json } = await world().instance.call('POST /api/v1/opportunities', { key, body });
    for (const place of [
      '',
      `?stage=${encodeURIComponent(evil)}`,
      `/${json.id}`,
      `/${json.id}/edit`,
      `/${json.id}/delete`,
    ]) {
      await go(page, acme, `data/opportunities${place}`);
      assert.equal(await page.locator('img, main script').count(), 0, place);
      assert.ok((await page.content()).includes('onerror=alert'), place);
    }
    await fillWebhooks(page, acme, evil);
    assert.equal(await page.locator('img, main script').count(), 0, 'a new integration');
    for (const section of sections) {
      await go(page, acme, section);
      await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true');
      assert.equal(await page.locator('img, main script').count(), 0, section);
      assert.ok((await page.getByText('onerror=alert').count()) > 0, section);
    }
    await page.goto('/setup/me');
    assert.equal(await page.locator('img').count(), 0);
    const query = `next=${encodeURIComponent(evil)}&done=${encodeURIComponent(evil)}`;
    for (const path of [
      `/setup/login?${query}`,
      `/setup/invite/${encodeURIComponent(evil)}`,
      `/setup/o/${encodeURIComponent(evil)}/keys`,
    ]) {
      await page.goto(path);
      assert.equal(await page.locator('img').count(), 0, path);
    }
  });

  test('everything except the copy buttons works without JavaScript', async () => {
    const { acme, page } = await enter({ javaScriptEnabled: false });
    const key = await makeKey(page, 'Plain');
    assert.equal(await statusOf(key), 200);
    assert.equal(await page.getByRole('button', { name: 'Copy' }).count(), 0);
    await makeProfile(page, 'Sales');
    await choose(page, 'Sales', 'Change Sales');
    await page.getByLabel('Sales: list on leads').check();
    await page.getByRole('button', { name: 'Save profile' }).click();
    await choose(page, 'Sales', 'Delete Sales');
    await page.getByRole('heading', { name: 'Delete Sales?' }).waitFor();
    await page.getByRole('button', { name: 'Delete profile' }).click();
    await page.getByRole('status').getByText('Sales deleted.').waitFor();
    await fillWebhooks(page, acme, 'Number');
    await go(page, acme, 'deliveries');
    await choose(page, 'dead Number', 'Replay dead Number');
    await page.getByRole('status').getByText('dead Number queued again.').waitFor();
    const { address, verifyToken } = await addIntegration(page, 'Plain');
    const query = `hub.mode=subscribe&hub.verify_token=${verifyToken}&hub.challenge=plain`;
    const handshake = await world().instance.call(`GET ${new URL(address).pathname}?${query}`);
    assert.equal(handshake.text, 'plain');
    await choose(page, 'Plain', 'Disable Plain');
    await page.getByRole('status').getByText('Plain disabled').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('status').getByText('You have been logged out.').waitFor();
  });

  test('logging in and creating a key works with the keyboard alone', async () => {
    const { instance, open } = world();
    const acme = await instance.organization(fresh('acme'));
    const page = await open();
    const focused = () => page.evaluate('document.activeElement.name || document.activeElement.textContent');
    const tabTo = async (name: string) => {
      for (let steps = 0; steps < 30; steps++) {
        if ((await focused()) === name) return;
        await page.keyboard.press('Tab');
      }
      assert.fail(`${name} is not reached`);
    };
    await page.goto('/setup/login');
    await tabTo('email');
    await page.keyboard.type(`admin@${acme.slug}.example`);
    await tabTo('password');
    await page.keyboard.type('a long enough password');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Log out' }).waitFor();
    for (const link of ['API keys', 'Create key']) {
      await tabTo(link);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: link === 'API keys' ? link : 'Create an API key' }).waitFor();
    }
    await tabTo('name');
    await page.keyboard.type('By hand');
    await tabTo('profile');
    await page.keyboard.type('read');
    await tabTo('Create key');
    const outline = await page.evaluate(
      'getComputedStyle(document.activeElement).boxShadow + getComputedStyle(document.activeElement).outlineStyle',
    );
    assert.notEqual(outline, 'nonenone', 'the focus is visible');
    await page.keyboard.press('Enter');
    const key = await page.getByLabel('API key', { exact: true }).inputValue();
    assert.equal(await statusOf(key), 200);
    const write = await instance.call('POST /api/v1/leads', { key, body: { last_name: 'X' } });
    assert.equal(write.status, 403, 'the read-only profile was selected');
  });

  describe('no page is wider than the screen of a phone', () => {
    for (const width of [320, 390]) {
      test(`${width} pixels`, async () => {
        const { acme, page } = await enter({
          viewport: { width, height: 740 },
          isMobile: true,
          hasTouch: true,
        });
        await makeKey(page, `${'long '.repeat(20)}${'W'.repeat(60)}`);
        const check = async (name: string) => {
          const [scroll, client] = (await page.evaluate(
            '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
          )) as [number, number];
          assert.ok(scroll <= client, `${name}: ${scroll} in ${client} pixels`);
          assert.equal(client, width, name);
        };
        await check('a new key');
        await fillWebhooks(page, acme, `${'long '.repeat(20)}${'W'.repeat(100)}`);
        await check('a new integration');
        for (const section of sections) {
          await go(page, acme, section);
          await check(section);
          await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true');
          await check(`${section}, unfolded`);
        }
        const { json } = await world().instance.call('POST /api/v1/leads', {
          key: acme.key,
          body: { last_name: `${'long '.repeat(20)}${'W'.repeat(100)}`, description: 'W'.repeat(300) },
        });
        for (const place of [
          '',
          '/new',
          `/${json.id}`,
          `/${json.id}/edit`,
          `/${json.id}/delete`,
          '/import',
        ]) {
          await go(page, acme, `data/leads${place}`);
          await check(`records${place}`);
        }
        for (const path of ['/setup/me', '/setup/login', '/setup/invite/x', '/setup/nowhere']) {
          await page.goto(path);
          await check(path);
        }
      });
    }
  });
});
