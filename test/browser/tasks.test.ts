// Tasks in the admin UI with a maximum number of clicks and keys. Typed text does not count.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import type { Locator, Page } from 'playwright-core';
import { tablesOf } from '../../engine/tables/handle.ts';
import { answering, failing, inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import type { Organization } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';
import { eventsTo, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';
import { steps } from '../support/steps.ts';

const assignableOwner = {
  file: 'resources/own-leads.yaml',
  text: 'extends: leads\nfields:\n  owner_id: { assignable: true }\n',
};

const receiver = await startReceiver();
after(() => receiver.close());

/** A user who counts clicks and keys. */
function userOf(page: Page) {
  const used = { clicks: 0, keys: 0 };
  return {
    used,
    click: async (target: Locator) => {
      used.clicks++;
      await target.click();
    },
    /** Chooses an option with the pointer. */
    choose: async (target: Locator, label: string) => {
      used.clicks++;
      await target.selectOption({ label });
    },
    press: async (key: string) => {
      used.keys++;
      await page.keyboard.press(key);
    },
    type: (text: string) => page.keyboard.type(text),
  };
}

const suite: Parameters<typeof inBrowser>[1] = (world) => {
  const { enter, go } = steps(world);
  const create = async (acme: Organization, resource: string, body: object) => {
    const made = await world().instance.call(`POST /api/v1/${resource}`, { key: acme.key, body });
    assert.equal(made.status, 201, made.text);
    return String(made.json.id);
  };
  const read = async (acme: Organization, path: string) =>
    (await world().instance.call(`GET /api/v1/${path}`, { key: acme.key })).json;
  /** The value next to a label on a record's page. */
  const valueNextTo = (page: Page, label: string) =>
    page
      .locator('.values > div')
      .filter({ has: page.locator('dt', { hasText: new RegExp(`^${label}$`) }) })
      .locator('dd')
      .first();

  for (const text of ['quast', 'zoe@quast.example'])
    test(`find a lead by "${text}" from anywhere: ⌘K and Enter`, async () => {
      const { acme, page } = await enter();
      await create(acme, 'leads', { first_name: 'Zoë', last_name: 'Quast', email: 'zoe@quast.example' });
      await go(page, acme, 'keys');
      const { used, press, type } = userOf(page);
      await press('Control+k');
      await page.getByRole('combobox', { name: 'Search or command' }).waitFor();
      await type(text);
      await press('Enter');
      await page.getByRole('heading', { name: 'Zoë Quast' }).waitFor();
      assert.deepEqual(used, { clicks: 0, keys: 2 });
    });

  /** Counts the requests of a page whose URL matches a pattern. */
  const countRequests = (page: Page, pattern: RegExp) => {
    const requested: string[] = [];
    page.on('request', (request) => {
      if (pattern.test(request.url())) requested.push(request.url());
    });
    return requested;
  };
  /** Counts the forms that a page submits from now on. */
  const countSubmissions = async (page: Page) => {
    await page.evaluate(
      "window.submitted = 0; document.addEventListener('submit', () => window.submitted++, { capture: true })",
    );
    return () => page.evaluate('window.submitted');
  };
  /** Returns the types of the dialogs that a page shows from now on. The user stays on the page unless they are accepted. */
  const dialogsOf = (page: Page, isAccepted = () => false) => {
    const types: string[] = [];
    answering.add(page);
    page.on('dialog', (dialog) => {
      types.push(dialog.type());
      return isAccepted() ? dialog.accept() : dialog.dismiss();
    });
    return types;
  };
  const focused = (page: Page) => page.evaluate('document.activeElement.textContent.trim()');

  test('open one of several leads from the command palette: its keys, and arrows', async () => {
    const { acme, page } = await enter();
    await create(acme, 'leads', { first_name: 'Ada', last_name: 'Palette', email: 'ada@palette.example' });
    const id = await create(acme, 'leads', {
      first_name: 'Bo',
      last_name: 'Palette',
      email: 'bo@palette.example',
    });
    await go(page, acme, 'keys');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('palette');
    const bo = page.getByRole('option', { name: /Bo Palette/ });
    await bo.getByText('Leads · bo@palette.example').waitFor();
    assert.equal(await page.getByRole('option', { selected: true }).textContent(), 'Search for “palette”');
    while ((await bo.getAttribute('aria-selected')) !== 'true') await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL(new RegExp(`/data/leads/${id}$`));
  });

  test('edit one field: 1 click, and Enter', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', company: 'Old' });
    await go(page, acme, `data/leads/${id}`);
    const { used, click, press, type } = userOf(page);
    await click(valueNextTo(page, 'Company'));
    await page.getByLabel('Company', { exact: true }).waitFor();
    await type('New');
    await press('Enter');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).company, 'New');
    assert.deepEqual(used, { clicks: 1, keys: 1 });
  });

  test('enter a value that is not suggested: 1 click, a choice and Enter', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', source: 'Website' });
    await go(page, acme, `data/leads/${id}`);
    const { used, click, press, type } = userOf(page);
    await click(valueNextTo(page, 'Source'));
    const other = page.getByLabel('Source: another value');
    const choice = page.getByLabel('Source', { exact: true });
    await choice.waitFor();
    assert.equal(await other.isVisible(), false);
    await choice.selectOption('Another value…');
    await type('Trade fair');
    await press('Enter');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).source, 'Trade fair');
    assert.deepEqual(used, { clicks: 1, keys: 1 });
  });

  test('enter a value that is not suggested in a cell, with the keyboard', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', source: 'Website' });
    await go(page, acme, 'data/leads?columns=source&columns=company');
    const cell = page.locator('td[data-label="Source"]');
    await cell.click();
    await cell.getByLabel('Source', { exact: true }).waitFor();
    await page.keyboard.press('End');
    for (const key of ['Enter', 'Tab']) {
      await cell.getByLabel('Source', { exact: true }).focus();
      await page.keyboard.press(key);
      assert.equal(await page.evaluate('document.activeElement.name'), 'source.other', key);
    }
    await page.keyboard.type('Trade fair');
    await page.keyboard.press('Enter');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).source, 'Trade fair');
  });

  test('a note is kept while a value is saved, and a value that is not saved is not lost with a note', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', company: 'Old' });
    await go(page, acme, `data/leads/${id}`);
    const note = page.getByLabel('Note', { exact: true });
    await note.fill('A draft');
    await valueNextTo(page, 'Company').click();
    const company = page.getByLabel('Company', { exact: true });
    await company.fill('New');
    await page.keyboard.press('Enter');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal(await note.inputValue(), 'A draft');
    await valueNextTo(page, 'Company').click();
    await company.fill('Newer');
    const asked = dialogsOf(page);
    await page.getByRole('button', { name: 'Add note' }).click({ noWaitAfter: true });
    await until(() => asked.length > 0, 'the page asks');
    assert.deepEqual(
      [await company.inputValue(), await note.inputValue(), (await read(acme, `leads/${id}`)).company],
      ['Newer', 'A draft', 'New'],
    );
  });

  test('a page that refreshes itself can be left', async () => {
    const { acme, page } = await enter();
    const { rows } = await sql<{ readonly id: string }>`
      insert into crm_jobs (organization_id, resource, action, input, state, caller_kind, request_id, due_at)
      values (${acme.id}::bigint, 'leads', ':import', '{}', 'running', 'command', '', now() + interval '1 hour')
      returning id::text`.execute(tablesOf(world().instance.database));
    await go(page, acme, `data/leads/jobs/${rows[0]?.id}`);
    await page.getByText('This page refreshes automatically.').waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Accounts', exact: true }).click();
    await page.getByRole('heading', { name: 'Accounts' }).waitFor();
    // Otherwise the browser would load the page of the job again.
    const requested = page.waitForRequest(/\/jobs\//, { timeout: 3000 });
    await assert.rejects(requested, /Timeout/);
    assert.match(page.url(), /\/data\/accounts$/);
  });

  test('edit cells of a list: 1 click, Tab to the next cell, and Enter', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', {
      last_name: 'Ames',
      company: 'Old',
      email: 'old@people.example',
    });
    await go(page, acme, 'data/leads?sort=last_name&columns=company&columns=email');
    const { used, click, press, type } = userOf(page);
    const cell = (label: string) => page.locator(`td[data-label="${label}"]`);
    await click(cell('Company'));
    await cell('Company').getByRole('textbox').waitFor();
    await type('New');
    await press('Tab');
    await cell('Email').getByRole('textbox').waitFor();
    await type('new@people.example');
    await press('Enter');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.match(page.url(), /data\/leads\?.*sort=last_name/, 'the user is where they were');
    const { company, email } = await read(acme, `leads/${id}`);
    assert.deepEqual([company, email], ['New', 'new@people.example']);
    assert.deepEqual(used, { clicks: 1, keys: 2 });
    await cell('Company').click();
    await cell('Company').getByRole('textbox').fill('Other');
    await page.keyboard.press('Escape');
    await cell('Company').getByText('New').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).company, 'New');
  });

  test('undo an edit: 1 click', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', company: 'Old' });
    await go(page, acme, `data/leads/${id}?edit=company`);
    const { used, click, press, type } = userOf(page);
    await type('New');
    await press('Enter');
    await page.getByRole('status').waitFor();
    await click(page.getByRole('button', { name: 'Undo' }));
    await page.getByText('Change to Ames undone.').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).company, 'Old');
    assert.equal(used.clicks, 1);
  });

  test('assign an owner: 2 clicks', async () => {
    const { acme, page } = await enter();
    const person = await makePerson(world().instance, [{ organization: acme }]);
    const id = await create(acme, 'leads', { last_name: 'Ames' });
    await go(page, acme, `data/leads/${id}`);
    const { used, click, choose } = userOf(page);
    await click(valueNextTo(page, 'Owner'));
    await choose(page.getByLabel('Owner', { exact: true }), person.email);
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal(String((await read(acme, `leads/${id}`)).owner_id), person.id);
    assert.deepEqual(used, { clicks: 2, keys: 0 });
  });

  test('move an opportunity to the next stage: 1 drag, or 2 keys; totals: none', async () => {
    const { acme, page } = await enter({ viewport: { width: 1600, height: 900 } });
    const id = await create(acme, 'opportunities', { name: 'Website relaunch', amount: 1200.5 });
    await create(acme, 'opportunities', { name: 'Printers', amount: 99.5, stage: 'Negotiation' });
    const stage = async () => (await read(acme, `opportunities/${id}`)).stage;
    await go(page, acme, 'data/opportunities/board');
    const column = (name: string) => page.getByRole('region', { name });
    await column('Prospecting').getByText('1 · 1,200.5').waitFor();
    await column('Negotiation').getByText('1 · 99.5').waitFor();
    const { used, press } = userOf(page);
    await press('j');
    await press('Shift+ArrowRight');
    await page.getByRole('status').getByText('Website relaunch saved.').waitFor();
    assert.equal(await stage(), 'Qualification');
    assert.deepEqual(used, { clicks: 0, keys: 2 });
    const card = column('Qualification').getByRole('listitem').filter({ hasText: 'Website relaunch' });
    await card.dragTo(column('Negotiation'));
    await column('Negotiation').getByText('2 · 1,300').waitFor();
    assert.equal(await stage(), 'Negotiation');
    await page.getByRole('button', { name: 'Undo' }).click();
    await column('Qualification').getByText('Website relaunch').waitFor();
    assert.equal(new URL(page.url()).pathname, `/setup/o/${acme.slug}/data/opportunities/board`);
  });

  test('a board shows the headings of its columns, and keeps its position while a card is open', async () => {
    const { acme, page } = await enter({ viewport: { width: 1000, height: 600 } });
    for (const index of Array(12).keys())
      await create(acme, 'opportunities', { name: `Deal ${index}`, stage: 'Negotiation' });
    await go(page, acme, 'data/opportunities/board');
    const board = page.locator('.board');
    const position = () => board.evaluate(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);
    const last = page.getByRole('region', { name: 'Negotiation' }).getByRole('link').last();
    await last.scrollIntoViewIfNeeded();
    const [left = 0, top = 0] = await position();
    assert.ok(left > 0 && top > 0, `${left} ${top}`);
    const heading = await page.getByRole('heading', { name: 'Negotiation' }).boundingBox();
    assert.equal(heading?.y, (await board.boundingBox())?.y);
    assert.equal(await page.evaluate('document.documentElement.scrollHeight'), 600);
    await last.click();
    await page.getByRole('heading', { name: /^Deal/ }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Negotiation' }).waitFor();
    assert.deepEqual(await position(), [left, top]);
  });

  test('delete 30 records: 3 clicks; undo: 1 click', async () => {
    const { acme, page } = await enter();
    const records = Array.from({ length: 30 }, (_, index) => ({ last_name: `L${index}` }));
    await world().instance.call('POST /api/v1/leads/batch', { key: acme.key, body: { records } });
    await go(page, acme, 'data/leads');
    const deletion = userOf(page);
    await deletion.click(page.getByLabel('Select all rows'));
    await page.getByText('20 selected').waitFor();
    await deletion.click(page.getByRole('button', { name: 'Delete selected' }));
    await deletion.click(page.getByRole('button', { name: 'Delete all 30 leads in the list' }));
    await page.getByRole('status').getByText('30 leads deleted.').waitFor();
    await page.getByText('No leads yet.').waitFor();
    assert.deepEqual(deletion.used, { clicks: 3, keys: 0 });
    const undo = userOf(page);
    await undo.click(page.getByRole('button', { name: 'Undo' }));
    await page.getByRole('status').getByText('30 leads restored with new IDs.').waitFor();
    await page.getByText('1–20 of 30').waitFor();
    assert.deepEqual(undo.used, { clicks: 1, keys: 0 });
  });

  test('switch among 300 organizations: ⌘K and Enter twice; it is open again after the next login', async () => {
    const { instance, open } = world();
    const acme = await instance.organization(fresh('acme'));
    const person = await makePerson(instance, [{ organization: acme }], { verified: true });
    const name = fresh('Many');
    await sql`with o as (
        insert into crm_organizations (slug, name)
        select lower(${name}::text) || '-' || n, ${name}::text || ' ' || n from generate_series(1, 300) n returning id),
      p as (insert into crm_profiles (organization_id, name) select id, 'member' from o returning id, organization_id)
      insert into crm_memberships (organization_id, user_id, profile_id)
      select organization_id, ${person.id}::bigint, id from p`.execute(tablesOf(instance.database));
    const page = await open();
    await logIn(page, person.email, person.password);
    const { used, press, type } = userOf(page);
    await press('Control+k');
    await type(`${name} 277`);
    await press('Enter');
    await page.getByRole('heading', { name: `${name} 277` }).waitFor();
    assert.deepEqual(used, { clicks: 0, keys: 2 });
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('status').getByText('You have been logged out.').waitFor();
    await logIn(page, person.email, person.password);
    await page.getByRole('heading', { name: `${name} 277` }).waitFor();
    await page.locator('.switcher summary').click();
    await page.getByRole('link', { name: `Go to ${acme.slug}` }).waitFor();
    await page.goto('/setup/me');
    await page.getByRole('link', { name: 'Show all 301 organizations' }).waitFor();
  });

  test('change the password: 2 clicks, without scrolling', async () => {
    const { page } = await enter({ viewport: { width: 1280, height: 720 } });
    const { used, click } = userOf(page);
    await click(page.locator('nav.foot a').first());
    await page.getByLabel('Current password').fill('a long enough password');
    await page.getByLabel('New password, at least 8 characters').fill('another good password');
    await page.getByLabel('Confirm new password').fill('another good password');
    assert.equal(await page.evaluate('scrollY'), 0);
    await click(page.getByRole('button', { name: 'Change password' }));
    await page.getByRole('status').waitFor();
    assert.deepEqual(used, { clicks: 2, keys: 0 });
  });

  test('filter with two conditions and save the view: 4 clicks, and Enter', async () => {
    const { acme, page } = await enter();
    const hot = { status: 'Working - Contacted', rating: 'Hot' };
    await create(acme, 'leads', { last_name: 'Ames', ...hot });
    await create(acme, 'leads', { last_name: 'Bishop', rating: 'Hot' });
    await go(page, acme, 'data/leads');
    const { used, click, choose, press, type } = userOf(page);
    await click(page.getByText('Filter', { exact: true }));
    const filters = page.getByRole('search', { name: 'Quick filters' });
    await choose(filters.getByLabel('Status'), hot.status);
    await choose(filters.getByLabel('Rating'), hot.rating);
    await click(filters.getByRole('button', { name: 'Save view' }));
    await page.getByRole('heading', { name: 'Save view' }).waitFor();
    await type('Hot and contacted');
    await press('Enter');
    await page.getByRole('status').getByText('View Hot and contacted saved.').waitFor();
    assert.deepEqual(used, { clicks: 4, keys: 1 });
    await page.getByRole('rowheader', { name: 'Ames' }).waitFor();
    assert.equal(await page.getByRole('rowheader', { name: 'Bishop' }).count(), 0);
    await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'All leads' }).click();
    await page.getByRole('rowheader', { name: 'Bishop' }).waitFor();
    await press('Control+k');
    await type('Hot and');
    await press('Enter');
    await page.getByText('1–1 of 1').waitFor();
  });

  test('merge two duplicates: 3 clicks', async () => {
    const { acme, page } = await enter();
    await create(acme, 'leads', { last_name: 'Bishop' });
    await create(acme, 'leads', { first_name: 'Zoë', last_name: 'Quast', company: 'Polarwatch' });
    const kept = await create(acme, 'leads', { first_name: 'Zoë', last_name: 'Quast' });
    await go(page, acme, 'data/leads');
    await page.getByRole('searchbox', { name: 'Search leads' }).focus();
    const { used, click, press, type } = userOf(page);
    await type('quast');
    await press('Enter');
    await page.getByText('1–2 of 2').waitFor();
    await click(page.getByLabel('Select all rows'));
    await click(page.getByRole('button', { name: 'Merge two selected' }));
    await click(page.getByRole('button', { name: 'Merge leads' }));
    await page.getByRole('status').getByText('merged').waitFor();
    await page.getByText('1–1 of 1').waitFor();
    assert.equal((await read(acme, `leads/${kept}`)).company, 'Polarwatch');
    assert.deepEqual(used, { clicks: 3, keys: 1 });
  });

  test('import 500 rows with semicolons and foreign column names: 4 clicks', async () => {
    const { acme, page } = await enter();
    world().instance.app.importWaitMs = patienceMs;
    await go(page, acme, 'data/leads');
    const rows = Array.from(
      { length: 500 },
      (_, index) => `Müller ${index};Firma ${index};m${index}@a.example`,
    );
    const buffer = Buffer.from(['Nachname;Betrieb;E-Mail', ...rows, ''].join('\r\n'));
    const { used, click, choose } = userOf(page);
    await click(page.getByRole('link', { name: 'Import CSV' }));
    const chooser = page.waitForEvent('filechooser');
    await click(page.getByLabel('File', { exact: true }));
    await (await chooser).setFiles({ name: 'kunden.csv', mimeType: 'text/csv', buffer });
    assert.equal(await page.getByLabel('Column “E-Mail”').inputValue(), 'email');
    assert.equal(await page.getByLabel('Column “Nachname”').inputValue(), 'last_name');
    await choose(page.getByLabel('Column “Betrieb”'), 'Company');
    await page.waitForLoadState();
    await click(page.getByRole('button', { name: 'Import 500 records' }));
    await page.getByText('1–20 of 500').waitFor();
    assert.deepEqual(used, { clicks: 4, keys: 0 });
    const { data } = await read(acme, 'leads?email=m7@a.example');
    const [lead] = data as { last_name: string; company: string }[];
    assert.deepEqual([lead?.last_name, lead?.company], ['Müller 7', 'Firma 7']);
  });

  test('find why a webhook failed: 2 clicks; retry: 1 click', async () => {
    const { acme, page } = await enter();
    const path = `/${fresh('hook')}`;
    receiver.behave(path, 503);
    const subscription = { url: `${receiver.url}${path}`, resources: ['leads'] };
    const key = await acme.keyWith([
      { object: 'events', actions: ['*'] },
      { object: '*', actions: ['*'] },
    ]);
    const made = await world().instance.call('POST /events/subscriptions', { key, body: subscription });
    assert.equal(made.status, 201, made.text);
    const lead = await create(acme, 'leads', { last_name: 'Ames' });
    const deliveries = async () =>
      (await world().instance.call(`GET /events/subscriptions/${made.json.id}/deliveries`, { key })).text;
    await until(async () => (await deliveries()).includes('503'), 'the first attempt');
    await go(page, acme, '');
    const { used, click } = userOf(page);
    await click(page.getByRole('link', { name: /^Show deliveries to / }));
    await page
      .getByRole('cell', { name: /The receiver responded with 503/ })
      .first()
      .waitFor();
    await click(page.getByRole('link', { name: `Lead ${lead} created (version 1)` }));
    await page.getByText('HTTP 503').waitFor();
    assert.deepEqual(used, { clicks: 2, keys: 0 });
    receiver.behave(path, 204);
    const retry = userOf(page);
    await retry.click(page.getByRole('button', { name: /^Retry now/ }));
    await page.getByRole('status').getByText('queued again.').waitFor();
    await until(async () => (await deliveries()).includes('done'), 'the retry');
    assert.deepEqual(retry.used, { clicks: 1, keys: 0 });
  });

  test('log a note: 2 clicks, or 1 click and Ctrl and Enter', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames' });
    await go(page, acme, `data/leads/${id}`);
    const { used, click, press, type } = userOf(page);
    await click(page.getByLabel('Note', { exact: true }));
    await type('Called back');
    await click(page.getByRole('button', { name: 'Add note' }));
    await page.getByRole('status').getByText('Note added.').waitFor();
    assert.deepEqual(used, { clicks: 2, keys: 0 });
    await click(page.getByLabel('Note', { exact: true }));
    await type('Called again');
    await press('Control+Enter');
    const notes = page.getByRole('region', { name: 'Timeline' }).locator('.text');
    await notes.getByText('Called again').waitFor();
    assert.deepEqual(await notes.allTextContents(), ['Called again', 'Called back']);
    await page.reload();
    await notes.getByText('Called again').waitFor();
    assert.equal(await page.getByText('Note added.').count(), 0, 'the message is shown once');
  });

  test('a form with unsaved changes asks before it is left', async () => {
    const { acme, page } = await enter();
    const form = `/setup/o/${acme.slug}/data/accounts/new`;
    const dialogs = dialogsOf(page);
    const home = page.getByRole('link', { name: 'Home', exact: true });
    await page.goto(form);
    await home.click();
    await page.waitForURL(`**/setup/o/${acme.slug}`);
    // The page is not loaded again, but replaced.
    await page.getByRole('navigation').getByRole('link', { name: 'Accounts', exact: true }).click();
    await page.getByRole('link', { name: 'Create account' }).first().click();
    await page.getByRole('heading', { name: 'Create account' }).waitFor();
    await page.getByLabel('Name', { exact: true }).pressSequentially('Unsaved');
    await home.click({ noWaitAfter: true });
    await until(() => dialogs.length === 1, 'the page asks');
    assert.equal(new URL(page.url()).pathname, form);
    await page.evaluate('history.back()');
    await until(() => dialogs.length === 2, 'the page asks before the previous page, too');
    assert.equal(new URL(page.url()).pathname, form);
    await page.getByRole('button', { name: 'Create account' }).click();
    await page.getByRole('heading', { name: 'Unsaved' }).waitFor();
    await home.click();
    await page.waitForURL(`**/setup/o/${acme.slug}`);
    await page.goto(form);
    await page.getByLabel('Name', { exact: true }).pressSequentially('Canceled');
    await page.getByRole('link', { name: 'Cancel' }).click();
    await page.waitForURL(/accounts$/);
    assert.deepEqual(dialogs, ['confirm', 'confirm']);
  });

  test('the list of keyboard shortcuts opens with ? and closes with Escape', async () => {
    const { acme, page } = await enter();
    await go(page, acme, 'data/leads');
    await page.keyboard.press('?');
    const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await dialog.getByText('Open the command palette').waitFor();
    const listed = await dialog.locator('kbd').allTextContents();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('searchbox', { name: 'Search leads' }).focus();
    await page.keyboard.type('?');
    assert.equal(await page.getByRole('dialog').count(), 0);
    await page.getByRole('link', { name: 'Keyboard shortcuts' }).click();
    await page.getByRole('heading', { name: 'Keyboard shortcuts', level: 1 }).waitFor();
    assert.deepEqual(await page.locator('main kbd').allTextContents(), listed);
  });

  test('the keyboard alone: go to a page, create a record, edit it, and select and delete it', async () => {
    const { acme, page } = await enter();
    const { press, type } = userOf(page);
    await press('Control+k');
    await type('Create acc');
    await press('Enter');
    await page.getByRole('heading', { name: 'Create account' }).waitFor();
    await page.getByLabel('Name', { exact: true }).focus();
    await type('By hand');
    await press('Enter');
    await page.getByRole('status').getByText('By hand created.').waitFor();
    await press('e');
    await page.getByRole('heading', { name: 'Edit By hand' }).waitFor();
    await go(page, acme, 'data/accounts');
    await press('j');
    await press('x');
    await page.getByText('1 selected').waitFor();
    await page.getByRole('button', { name: 'Delete selected' }).focus();
    await press('Enter');
    await page.getByRole('heading', { name: 'Delete 1 account?' }).waitFor();
    await page.getByRole('button', { name: 'Delete 1 account' }).focus();
    await press('Enter');
    await page.getByRole('status').getByText('1 account deleted.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).focus();
    await press('Enter');
    await page.getByRole('rowheader', { name: 'By hand' }).waitFor();
    await press('Control+k');
    await page.getByRole('combobox').waitFor();
    await press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });

  test('editing in place: Escape closes the form, and without JavaScript the pencil opens it', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', company: 'Old' });
    await go(page, acme, `data/leads/${id}`);
    await page.getByRole('link', { name: 'Edit Company' }).click();
    await page.getByLabel('Company', { exact: true }).waitFor();
    await page.keyboard.type('New');
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Edit Company' }).waitFor();
    assert.equal((await read(acme, `leads/${id}`)).company, 'Old');

    const plain = await world().open({ javaScriptEnabled: false });
    await logIn(plain, `admin@${acme.slug}.example`);
    await go(plain, acme, `data/leads/${id}`);
    await plain.getByRole('link', { name: 'Edit Company' }).click();
    await plain.getByLabel('Company', { exact: true }).fill('Plain');
    await plain.getByRole('button', { name: 'Save' }).click();
    await plain.getByRole('button', { name: 'Undo' }).click();
    await plain.getByText('Change to Ames undone.').waitFor();
    await plain.getByLabel('Note', { exact: true }).fill('Without JavaScript');
    await plain.getByRole('button', { name: 'Add note' }).click();
    await plain.getByText('Without JavaScript').waitFor();
    await plain.getByRole('link', { name: 'Keyboard shortcuts' }).click();
    await plain.getByText('Open the command palette').waitFor();
    await go(plain, acme, 'data/leads');
    await plain.getByLabel('Select Ames').check();
    await plain.getByRole('button', { name: 'Delete selected' }).click();
    await plain.getByRole('button', { name: 'Delete 1 lead' }).click();
    await plain.getByText('1 lead deleted.').waitFor();
    await plain.getByRole('button', { name: 'Undo' }).click();
    await plain.getByRole('rowheader', { name: 'Ames' }).waitFor();
    await plain.getByText('Filter', { exact: true }).click();
    await plain.getByRole('list', { name: 'Fields' }).getByRole('link', { name: 'Rating' }).click();
    await plain.getByLabel('Value').selectOption('Cold');
    await plain.getByRole('button', { name: 'Add filter' }).click();
    await plain.getByText('No results.').waitFor();
    await plain.getByText('Filter', { exact: true }).click();
    const quick = plain.getByRole('search', { name: 'Quick filters' });
    await quick.getByLabel('Status').selectOption('Open - Not Contacted');
    await quick.getByRole('button', { name: 'Save view' }).click();
    await plain.getByLabel('Name').fill('Cold');
    await plain.getByRole('button', { name: 'Save view' }).click();
    await plain.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Cold' }).waitFor();
    await create(acme, 'opportunities', { name: 'Printers' });
    await go(plain, acme, 'data/opportunities/board');
    await plain.getByLabel('Move Printers').click();
    await plain.getByRole('button', { name: 'Closed Won' }).click();
    await plain.getByRole('region', { name: 'Closed Won' }).getByText('Printers').waitFor();
  });

  test('keys have their effect only outside fields and without other keys', async () => {
    const { acme, page } = await enter();
    for (const last_name of ['One', 'Two', 'Three']) await create(acme, 'leads', { last_name });
    await go(page, acme, 'data/leads?sort=last_name');
    await page.evaluate(
      "window.followed = 0; document.querySelector('a[data-key]').addEventListener('click', () => window.followed++)",
    );
    for (const key of ['Control+c', 'Alt+c', 'Meta+c']) await page.keyboard.press(key);
    assert.equal(await page.evaluate('window.followed'), 0);
    for (let count = 0; count < 2; count++) await page.keyboard.press('Control+k');
    assert.equal(await page.getByRole('dialog').count(), 1);
    await page.keyboard.press('c');
    assert.equal(await page.getByRole('combobox').inputValue(), 'c');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    // A checkbox is not a field for text.
    await page.getByLabel('Select One').focus();
    await page.keyboard.press('j');
    assert.equal(await focused(page), 'Three');
    await page.keyboard.press('x');
    await page.getByText('1 selected').waitFor();
    const merge = page.getByRole('button', { name: 'Merge two selected' });
    const all = page.getByLabel('Select all rows');
    const states: unknown[] = [];
    for (const name of [undefined, 'One', 'Two']) {
      if (name !== undefined) await page.getByLabel(`Select ${name}`).check();
      const isPartial = (await all.and(page.locator(':indeterminate')).count()) === 1;
      states.push([await merge.isEnabled(), await all.isChecked(), isPartial]);
    }
    assert.deepEqual(states, [
      [false, false, true],
      [true, false, true],
      [false, true, false],
    ]);
  });

  test('a menu closes with Escape and keeps the focus, and arrow keys belong to the fields of a filter', async () => {
    const { acme, page } = await enter();
    await create(acme, 'leads', { last_name: 'Ames' });
    await go(page, acme, 'data/leads?by=rating');
    const value = page.getByLabel('Value');
    await value.focus();
    await page.keyboard.press('ArrowDown');
    assert.deepEqual(
      [await value.inputValue(), await page.evaluate('document.activeElement.id')],
      ['Warm', 'in-value'],
    );
    const menu = page.locator('details.menu').first();
    const isOpen = async () => (await menu.getAttribute('open')) !== null;
    await page.getByLabel('Actions for Ames').click();
    await page.keyboard.press('ArrowDown');
    assert.equal(await focused(page), 'Edit');
    // The focus leaves the page, for example for another window.
    await page.evaluate('document.activeElement.blur()');
    assert.equal(await isOpen(), true);
    await menu.getByRole('link', { name: 'Edit Ames' }).focus();
    await page.keyboard.press('Escape');
    assert.deepEqual(
      [await isOpen(), await page.evaluate('document.activeElement.tagName')],
      [false, 'SUMMARY'],
    );
  });

  test('a choice is saved when it is made with the pointer, but not with each arrow key', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', rating: 'Hot' });
    await go(page, acme, `data/leads/${id}?edit=rating`);
    const submissions = await countSubmissions(page);
    const rating = page.getByLabel('Rating', { exact: true });
    await rating.focus();
    await page.keyboard.press('ArrowDown');
    assert.deepEqual([await rating.inputValue(), await submissions()], ['Warm', 0]);
    await rating.dispatchEvent('pointerdown');
    await rating.selectOption('Cold');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).rating, 'Cold');
    // Screen readers announce the page, although it is not loaded again.
    await page.locator('[aria-live="polite"]').getByText('Ames').waitFor({ state: 'attached' });
  });

  test('one cell of a list is open at a time, and only if it was clicked or reached with Tab', async () => {
    const { acme, page } = await enter();
    await create(acme, 'leads', { last_name: 'Ames', company: 'Old', email: 'old@people.example' });
    await go(page, acme, 'data/leads?sort=last_name&columns=company&columns=email');
    const forms = countRequests(page, /[?&]edit=/);
    const cell = (label: string) => page.locator(`td[data-label="${label}"]`);
    const open = (label: string) => cell(label).getByRole('textbox');
    // Selecting a text with the pointer also ends with a click.
    await page.evaluate(`{
      const cell = document.querySelector('td[data-label="Company"]');
      getSelection().selectAllChildren(cell);
      cell.click();
      getSelection().empty();
    }`);
    await cell('Email').click();
    await open('Email').waitFor();
    await page.keyboard.press('Shift+Tab');
    await open('Company').waitFor();
    await cell('Email').click();
    await open('Email').waitFor();
    assert.equal(await open('Company').count(), 0);
    assert.equal(await cell('Company').textContent(), 'Old');
    await page.keyboard.press('Escape');
    await cell('Email').getByText('old@people.example').waitFor();
    assert.equal(forms.length, 3, forms.join('\n'));
    // The page is replaced, and no cell opens again.
    await page.getByRole('columnheader', { name: 'Lead', exact: false }).first().getByRole('link').click();
    await page.waitForURL(/dir=asc/);
    await cell('Company').click();
    await open('Company').waitFor();
    assert.equal(forms.length, 4, forms.join('\n'));
  });

  test('a page asks before unsaved input is lost, and only once', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', company: 'Old' });
    const home = page.getByRole('link', { name: 'Home', exact: true });
    // The confirmation of a deletion contains nothing worth keeping.
    await page.goto(`/setup/organizations/${acme.slug}/delete`);
    await page.locator('main').getByRole('textbox').first().fill('not the name');
    await home.click();
    await page.waitForURL(`**/setup/o/${acme.slug}`);
    let isLeaving = false;
    const dialogs = dialogsOf(page, () => isLeaving);
    failing.add(page);
    await go(page, acme, `data/leads/${id}`);
    const note = page.getByLabel('Note', { exact: true });
    await note.fill('A draft');
    await home.click({ noWaitAfter: true });
    await until(() => dialogs.length === 1, 'the page asks for the note');
    assert.equal(await note.inputValue(), 'A draft');
    // A value that was rejected is not saved, either.
    await valueNextTo(page, 'Lead score').click();
    const score = page.getByLabel('Lead score', { exact: true });
    await score.fill('many');
    await page.keyboard.press('Enter');
    await page.getByText('lead_score must be a 64-bit integer').waitFor();
    assert.equal(dialogs.length, 1, 'the note is kept');
    isLeaving = true;
    await page.getByRole('button', { name: 'Add note' }).click();
    await page.getByRole('status').getByText('Note added.').waitFor();
    assert.deepEqual(dialogs, ['confirm', 'confirm']);
    isLeaving = false;
    await valueNextTo(page, 'Lead score').click();
    await score.fill('many');
    await page.keyboard.press('Enter');
    await page.getByText('lead_score must be a 64-bit integer').waitFor();
    await home.click({ noWaitAfter: true });
    await until(() => dialogs.length === 3, 'the page asks for the rejected value');
    assert.match(page.url(), new RegExp(`/data/leads/${id}`));
  });

  test('input that the server did not receive is not lost', async () => {
    const { acme, page } = await enter();
    const id = await create(acme, 'leads', { last_name: 'Ames', company: 'Old' });
    await go(page, acme, `data/leads/${id}`);
    await valueNextTo(page, 'Company').click();
    const company = page.getByLabel('Company', { exact: true });
    await company.fill('New');
    failing.add(page);
    await page.context().setOffline(true);
    const problem = page.getByRole('alert').getByText('The server did not respond.');
    for (const attempt of ['first', 'second']) {
      await company.press('Enter');
      await problem.waitFor();
      assert.deepEqual([await problem.count(), await company.inputValue()], [1, 'New'], attempt);
    }
    await page.context().setOffline(false);
    const dialogs = dialogsOf(page);
    await page.getByRole('link', { name: 'Home', exact: true }).click({ noWaitAfter: true });
    await until(() => dialogs.length === 1, 'the page asks');
    await company.press('Enter');
    await page.getByRole('status').getByText('Ames saved.').waitFor();
    assert.equal((await read(acme, `leads/${id}`)).company, 'New');
  });

  test('the command palette lists pages once, records as records, and searches only the last text', async () => {
    const { acme, page } = await enter();
    await create(acme, 'leads', { last_name: 'Leads manager' });
    const searches = countRequests(page, /\/search\?/);
    await page.keyboard.press('Control+k');
    const input = page.getByRole('combobox');
    const options = async () => (await page.getByRole('option').allTextContents()).map((text) => text.trim());
    await input.fill('$&');
    assert.deepEqual(await options(), ['Search for “$&”']);
    // Each input follows the previous one before the search for it starts.
    await page.evaluate(`{
      const element = document.activeElement;
      for (const text of ['l', 'lea', 'leads']) {
        element.value = text;
        element.dispatchEvent(new Event('input'));
      }
    }`);
    await page.getByRole('option', { name: 'Leads manager' }).waitFor();
    assert.deepEqual(await options(), [
      'Leads',
      'Search for “leads”',
      'Leads manager Leads · Open - Not Contacted',
    ]);
    assert.deepEqual(
      searches.map((url) => new URL(url).searchParams.get('q')).filter((text) => text !== '$&'),
      ['leads'],
    );
    await input.fill('l');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await input.fill('leads');
    await page.getByRole('option', { name: 'Leads manager' }).waitFor();
    assert.ok(!searches.some((url) => new URL(url).searchParams.get('q') === 'l'), searches.join('\n'));
  });

  test('each board of a list has its own position, and a moved card keeps the focus', async () => {
    const { acme, page } = await enter({ viewport: { width: 700, height: 600 } });
    await create(acme, 'leads', { last_name: 'Ames', rating: 'Hot' });
    await go(page, acme, 'data/leads/board?by=status');
    const board = page.locator('.board');
    await board.evaluate((element) => element.scrollTo({ left: 200 }));
    await until(
      async () => (await page.evaluate('Object.keys(sessionStorage).length')) === 1,
      'the position',
    );
    await page.locator('.chips').getByRole('link', { name: 'Rating' }).click();
    await page.getByRole('heading', { name: 'Leads by rating' }).waitFor();
    assert.equal(await board.evaluate(({ scrollLeft }) => scrollLeft), 0);
    await page.getByRole('link', { name: 'Ames' }).focus();
    for (const rating of ['Warm', 'Cold']) {
      await page.keyboard.press('Shift+ArrowRight');
      await page.getByRole('region', { name: rating }).getByRole('link', { name: 'Ames' }).waitFor();
      await until(async () => (await focused(page)) === 'Ames', 'the focus');
    }
  });

  test('an import’s file is not checked with each arrow key, and the list after it starts at its top', async () => {
    const { acme, page } = await enter({ viewport: { width: 1280, height: 320 } });
    world().instance.app.importWaitMs = patienceMs;
    await go(page, acme, 'data/leads/import');
    const rows = Array.from({ length: 30 }, (_, index) => `Row ${index},x`);
    const buffer = Buffer.from(['last_name,unknown', ...rows, ''].join('\n'));
    await page
      .getByLabel('File', { exact: true })
      .setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer });
    const column = page.getByLabel('Column “unknown”');
    await column.focus();
    const submissions = await countSubmissions(page);
    await page.keyboard.press('ArrowDown');
    assert.notEqual(await column.inputValue(), '');
    assert.equal(await submissions(), 0);
    await column.selectOption({ index: 0 });
    await page.evaluate('scrollTo(0, 200)');
    assert.ok(Number(await page.evaluate('scrollY')) > 0);
    await page.getByRole('button', { name: 'Import 30 records' }).dispatchEvent('click');
    await page.getByText('1–20 of 30').waitFor();
    assert.equal(await page.evaluate('scrollY'), 0);
  });

  test('a link in an email enters its code', async () => {
    const { acme, page } = await enter();
    await go(page, acme, 'members/invite');
    await page.getByLabel('Email address', { exact: true }).fill(`${fresh('guest')}@people.example`);
    await page.getByLabel('Profile', { exact: true }).selectOption({ label: 'read-only' });
    await page.getByRole('button', { name: 'Invite member' }).click();
    const link = await page.getByLabel('Link', { exact: true }).inputValue();
    const code = await page.getByLabel('Code', { exact: true }).inputValue();
    const guest = await world().open();
    await guest.goto(`${link}#${code}`);
    await guest.getByLabel('New password').waitFor();
    assert.ok(!guest.url().includes(code));
    await guest.goto(`/setup/reset/x#${code}`);
    assert.equal(await guest.getByLabel('Code').inputValue(), code);
    assert.ok(!guest.url().includes(code));
  });
};

inBrowser('tasks in the admin UI', suite, {
  sources: await sourcesWith(assignableOwner),
  environment: settingsFile(eventsTo(receiver.port)).environment,
});
