// The API explorer: a logged-in user sends a request with two clicks, without a key. axe finds no serious or critical
// issues.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator, Page, Request } from 'playwright-core';
import { look } from '../support/axe.ts';
import { failing, inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { administratorOf } from '../support/forms.ts';
import { makePerson } from '../support/people.ts';

/** Operations that readers try first, with the expected URLs and status codes. */
const firstClicks = [
  { id: 'listAccounts', url: '/api/v1/accounts', status: 200 },
  { id: 'createAccount', url: '/api/v1/accounts', status: 201 },
  { id: 'getAccount', url: '/api/v1/accounts/1', status: 200 },
];
const looks = [
  { colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { colorScheme: 'dark', viewport: { width: 390, height: 844 } },
] as const;

/** Returns an operation, and opens it if it is closed. */
async function openOperation(page: Page, id: string): Promise<Locator> {
  const operation = page.locator(`details#${id}`);
  if ((await operation.getAttribute('open')) === null) await operation.locator('summary').first().click();
  return operation;
}

/** Presses "Send request" in an operation. Returns the request and the status of its response. */
async function send(page: Page, operation: Locator): Promise<{ request: Request; status: number }> {
  const [response] = await Promise.all([
    page.waitForResponse((response) => /^\/(api|auth|webhooks)\//.test(new URL(response.url()).pathname)),
    operation.getByRole('button', { name: 'Send request' }).click(),
  ]);
  await operation.getByRole('status').getByText(String(response.status())).waitFor();
  return { request: response.request(), status: response.status() };
}

inBrowser('the explorer', (world) => {
  test('a logged-in user sends requests without a key, and their responses are visible on a phone', async () => {
    const { instance, open } = world();
    const organization = await instance.organization('explored');
    const page = await open({ viewport: { width: 390, height: 844 }, reducedMotion: 'reduce' });
    const { email, password } = administratorOf(organization);
    await logIn(page, email, password);
    await page.goto('/docs');
    await page.locator('main').getByRole('link', { name: 'Accounts' }).first().click();
    for (const { id, url, status } of firstClicks) {
      const operation = await openOperation(page, id);
      const sent = await send(page, operation);
      assert.deepEqual([sent.request.url(), sent.status], [instance.url + url, status]);
      const headers = await sent.request.allHeaders();
      for (const name of ['authorization', 'prefer', 'if-match', 'if-none-match', 'idempotency-key'])
        assert.equal(headers[name], undefined, name);
      const box = await operation.getByRole('region', { name: 'Response' }).boundingBox();
      assert.ok(box !== null && box.x >= 0 && box.y >= 0 && box.y < 400, `visible: ${JSON.stringify(box)}`);
    }
    const { data } = (await instance.call('GET /api/v1/accounts', { key: organization.key })).json as {
      data: { name: string }[];
    };
    assert.equal(data[0]?.name, 'Nordlicht Energie AG', 'the first sample');
    const stored = 'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])';
    assert.equal(await page.evaluate(stored), '[{},{},""]', 'scripts cannot read the session');
    await page.context().clearCookies();
    await page.reload();
    await page.getByRole('link', { name: 'Log in to send requests' }).waitFor();
  });

  test('requests are sent for the chosen organization, filled-in parameters are sent, and a key replaces the session', async () => {
    const { instance, open } = world();
    const [first, second] = [await instance.organization('nord'), await instance.organization('south')];
    const person = await makePerson(instance, [{ organization: first }, { organization: second }]);
    const page = await open({ viewport: { width: 1280, height: 900 } });
    await logIn(page, person.email, person.password);
    await page.goto('/setup/o/south');
    await page.goto('/docs/leads#listLeads');
    const list = await openOperation(page, 'listLeads');
    assert.equal((await send(page, list)).request.url(), `${instance.url}/api/v1/leads?org=south`);
    await Promise.all([
      page.waitForURL(({ search }) => search === '?org=nord'),
      page.getByLabel('Organization', { exact: true }).selectOption('nord'),
    ]);
    assert.equal(new URL(page.url()).hash, '#listLeads', 'the same operation stays open');
    await list.locator('.optional > summary').click();
    await list.getByLabel(/^status\[in\] /).fill('Open - Not Contacted\nWorking - Contacted');
    await list.getByLabel(/^fields /).fill('id\nemail');
    await list.getByLabel(/^dir /).selectOption('desc');
    const filtered = await send(page, list);
    assert.equal(filtered.status, 200);
    assert.equal(
      new URL(filtered.request.url()).search,
      '?dir=desc&status%5Bin%5D=Open+-+Not+Contacted&status%5Bin%5D=Working+-+Contacted&fields=id%2Cemail&org=nord',
    );
    await page.getByText('Use an API key').click();
    const keyInput = page.getByLabel('API key', { exact: true });
    await keyInput.fill(` ${second.key} `);
    await page.keyboard.press('Escape');
    await keyInput.waitFor({ state: 'hidden' });
    await page.getByText('API key in use').click();
    await page.getByRole('heading', { level: 1 }).click();
    await keyInput.waitFor({ state: 'hidden' });
    const create = await openOperation(page, 'createLead');
    assert.equal(new URL(page.url()).hash, '#createLead');
    const { request, status } = await send(page, create);
    assert.deepEqual([new URL(request.url()).search, status], ['', 201]);
    const headers = await request.allHeaders();
    assert.deepEqual([headers.authorization, headers.cookie], [`Bearer ${second.key}`, undefined]);
    await create.getByText('Request as a curl command').click();
    assert.ok(!(await create.innerText()).includes(second.key), 'the command does not contain the key');
    // The endpoint is not configured.
    failing.add(page);
    await page.goto('/docs/partners');
    const partner = await openOperation(page, 'createInboundLead');
    await partner.getByLabel('Secret', { exact: true }).fill('a secret of partners');
    const { request: sent } = await send(page, partner);
    const { 'x-inbound-secret': secret, authorization, cookie } = await sent.allHeaders();
    assert.deepEqual([secret, authorization, cookie], ['a secret of partners', undefined, undefined]);
    await partner.getByText('Request as a curl command').click();
    const commands = await partner
      .locator('pre')
      .filter({ hasText: /^curl / })
      .allInnerTexts();
    assert.ok(commands.length === 1 && !String(commands).includes('a secret of partners'), String(commands));
    await page.goto('/docs/leads');
    await page.getByText('Use an API key').waitFor();
    assert.equal(await page.getByLabel('API key', { exact: true }).inputValue(), '');
  });

  test('formats and parameters are sent as entered, and responses keep their digits and are cut if they are long', async () => {
    const { instance, open } = world();
    const organization = await instance.organization('shown');
    const { email, password } = administratorOf(organization);
    const page = await open({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
    failing.add(page);
    await logIn(page, email, password);
    await page.goto('/docs/leads');
    const create = await openOperation(page, 'createLead');
    const body = String.raw`{"last_name":"it's \"b, {c}: [d]","lead_score":9007199254740993}`;
    await create.getByLabel('Body', { exact: true }).fill(body);
    assert.equal((await send(page, create)).status, 201);
    const shown = await create.getByRole('region', { name: 'Response' }).locator('pre').first().innerText();
    assert.ok(
      shown.includes(String.raw`
  "last_name": "it's \"b, {c}: [d]",
`),
    );
    assert.match(shown, /\n {2}"lead_score": 9007199254740993,\n/);
    await create.getByText('Request as a curl command').click();
    const command = await create
      .locator('pre')
      .filter({ hasText: /^curl / })
      .innerText();
    assert.ok(command.includes(`--data-binary '${body.replaceAll("'", String.raw`'\''`)}'`), command);

    const imports = await openOperation(page, 'importLeads');
    await imports.getByLabel('Content type').selectOption('application/x-ndjson');
    const lines = await imports.getByLabel('Body', { exact: true }).inputValue();
    assert.match(lines, /^\{.*\}\n/);
    const imported = await send(page, imports);
    const type = (await imported.request.allHeaders())['content-type'];
    assert.deepEqual([imported.status, type], [200, 'application/x-ndjson']);

    const list = await openOperation(page, 'listLeads');
    await list.getByLabel('Response format').selectOption('text/csv');
    const exported = await send(page, list);
    assert.equal((await exported.request.allHeaders()).accept, 'text/csv');
    await list
      .getByText(/^id,.*last_name/)
      .first()
      .waitFor();

    const read = await openOperation(page, 'getLead');
    await read.getByLabel(/^id /).fill('a/b');
    const missing = await send(page, read);
    assert.deepEqual([missing.request.url(), missing.status], [`${instance.url}/api/v1/leads/a%2Fb`, 404]);
    const long = await instance.call('POST /api/v1/leads', {
      key: organization.key,
      body: { description: 'x'.repeat(600_000) },
    });
    const note = read.getByText('The rest of the response is not shown.');
    assert.equal(await note.count(), 0);
    await read.getByLabel(/^id /).fill(String(long.json.id));
    assert.equal((await send(page, read)).status, 200);
    await note.waitFor();
    const cut = await read.getByRole('region', { name: 'Response' }).locator('pre').first().innerText();
    assert.equal(cut.length, 500_000);

    await page.context().clearCookies();
    assert.equal((await send(page, read)).status, 401);
    await read.getByText('You are not logged in. Log in or use an API key.').waitFor();
    await page.context().setOffline(true);
    await read.getByRole('button', { name: 'Send request' }).click();
    await read.getByText('The server did not respond.').waitFor();
    await page.context().setOffline(false);
    assert.equal((await send(page, read)).status, 401);
  });

  for (const { colorScheme, viewport } of looks) {
    test(`axe, ${colorScheme}, ${viewport.width} pixels wide`, async () => {
      const { instance, open } = world();
      const organization = await instance.organization(`axe-${colorScheme}`);
      const page = await open({ bypassCSP: true, reducedMotion: 'reduce', colorScheme, viewport });
      await page.goto('/docs');
      await look(page, `explorer-start-${colorScheme}`);
      const { email, password } = administratorOf(organization);
      await logIn(page, email, password);
      await page.goto('/docs/opportunities');
      await page
        .getByText(/^Transitions of/)
        .or(page.getByRole('heading', { level: 1 }))
        .first()
        .click();
      for (const summary of await page.locator('details#listOpportunities .optional > summary').all())
        await summary.click();
      await send(page, await openOperation(page, 'listOpportunities'));
      const create = await openOperation(page, 'createOpportunity');
      await send(page, create);
      for (const summary of await create.locator('details > summary').all()) await summary.click();
      await look(page, `explorer-${colorScheme}`);
    });
  }
});
