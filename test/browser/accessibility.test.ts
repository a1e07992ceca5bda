// axe finds no serious or critical issues on any page, in light or dark mode, on wide or narrow screens.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { objections, ofColors } from '../support/axe.ts';
import { inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { fresh } from '../support/people.ts';
import { takePicture } from '../support/pictures.ts';
import { until } from '../support/process.ts';
import { steps } from '../support/steps.ts';

inBrowser('accessibility', (world) => {
  const { addIntegration, choose, fillWebhooks, inviteMember, makeKey, makeProfile } = steps(world);
  const wide = { width: 1280, height: 900 };
  for (const viewport of [wide, { width: 390, height: 740 }]) {
    test(`every page, ${viewport.width} pixels wide`, async () => {
      const { instance, open } = world();
      const acme = await instance.organization(fresh('acme'));
      const at = (section: string) => `/setup/o/${acme.slug}/${section}`;
      const page = await open({ bypassCSP: true, reducedMotion: 'reduce', colorScheme: 'light', viewport });
      const check = async (name: string) => {
        assert.deepEqual(await objections(page), [], name);
        await takePicture(page, name, 'light');
        await page.emulateMedia({ colorScheme: 'dark' });
        // The colors of narrow pages are those of wide pages.
        if (viewport === wide) assert.deepEqual(await objections(page, ofColors), [], `${name}, dark`);
        await takePicture(page, name, 'dark');
        await page.emulateMedia({ colorScheme: 'light' });
        assert.equal(
          await page.getByRole('heading', { level: 1 }).count(),
          1,
          `${name}: one level 1 heading`,
        );
        assert.equal(await page.getByRole('main').count(), 1, name);
        assert.notEqual(await page.title(), '', name);
      };
      for (const path of [
        '/setup/login',
        '/setup/login?done=logged-out',
        '/setup/invite/x',
        '/setup/nowhere',
      ]) {
        await page.goto(path);
        await check(path);
      }
      await page.goto('/setup/login');
      await page.getByLabel('Email address').fill('nobody@people.example');
      await page.getByLabel('Password').fill('wrong');
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.getByRole('alert').waitFor();
      await check('a refused login');

      await logIn(page, `admin@${acme.slug}.example`);
      await check('home');
      for (const name of ['Website', 'Website', 'Warehouse']) await makeKey(page, name);
      await check('a new key');
      await page.goto(at('keys'));
      await page.getByLabel('Actions for Warehouse').click();
      await check('a menu');
      await page.getByRole('link', { name: 'Revoke Warehouse' }).click();
      await check('a question');
      await page.getByRole('button', { name: 'Revoke key' }).click();
      await page.getByRole('status').waitFor();
      await check('a revoked key');
      await inviteMember(page, 'guest@people.example');
      await page.getByLabel('Code', { exact: true }).waitFor();
      await check('an invitation');
      for (const count of [1, 2]) {
        await makeProfile(page, 'Sales');
        await page.getByRole(count === 1 ? 'status' : 'alert').waitFor();
      }
      await check('a profile’s name taken');
      await page.goto(at('profiles'));
      await choose(page, 'Sales', 'Change Sales');
      await check('a profile');
      await fillWebhooks(page, acme, 'Number');
      await check('a new integration');
      await page.reload();
      await page.getByRole('alert').waitFor();
      await check('an integration’s form sent again');
      await addIntegration(page, 'Page', 'Messenger');
      await choose(page, 'Page', 'Disable Page');
      await page.getByRole('status').waitFor();
      const key = await acme.keyWith([
        { object: 'events', actions: ['*'] },
        { object: '*', actions: ['*'] },
      ]);
      const body = { url: 'https://events.example/hook', resources: ['leads'] };
      const { json: hook } = await instance.call('POST /events/subscriptions', { key, body });
      const { json: queued } = await instance.call(`POST /events/subscriptions/${hook.id}/test`, { key });
      const item = at(`events/item?id=${queued.delivery}`);
      await until(async () => {
        await page.goto(item);
        return (await page.getByText('The host name cannot be resolved').count()) > 1;
      }, 'the first attempt');
      await check('a delivery');
      await page.goto(at(`events/subscription?id=${hook.id}`));
      await check('a subscription');
      for (const section of ['integrations', 'deliveries', 'partners']) {
        await page.goto(at(section));
        await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true');
        await check(`${section}, all unfolded`);
      }
      const lead = await instance.call('POST /api/v1/leads', {
        key: acme.key,
        body: { last_name: 'Ames', email: 'ames@people.example', description: 'Several\nlines' },
      });
      await page.goto(at(`data/leads/${lead.json.id}/edit`));
      await page.getByLabel('Lead score').fill('much');
      await page.getByRole('button', { name: 'Save lead' }).click();
      await page.getByRole('alert').waitFor();
      await check('a refused record');
      await page.getByLabel('Lead score').fill('7');
      await page.getByRole('button', { name: 'Save lead' }).click();
      await page.getByRole('status').waitFor();
      await check('a record with history');
      await page.getByLabel('Note', { exact: true }).fill('Called back.\nShe is interested.');
      await page.getByRole('button', { name: 'Add note' }).click();
      await page.getByRole('status').waitFor();
      await check('a record with a note');
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      await check('the keyboard shortcuts');
      await page.getByRole('button', { name: 'Close' }).click();
      await page.getByRole('link', { name: /^Edit the note/ }).click();
      await check('changing a note');
      await page.goBack();
      await page.getByRole('link', { name: /^Delete the note/ }).click();
      await check('deleting a note');
      await page.goto(at(`data/leads/${lead.json.id}`));
      await page.getByRole('link', { name: /^Undo/ }).click();
      await check('undo');
      await page.goto(at(`data/leads/${lead.json.id}?edit=lead_score`));
      await page.getByLabel('Lead score').fill('much');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('alert').waitFor();
      await check('a refused value');
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox').waitFor();
      await check('the command palette');
      await instance.call('POST /api/v1/leads', {
        key: acme.key,
        body: { last_name: 'Berg', email: 'ames@people.example', phone: '+49 30 1234', rating: 'Hot' },
      });
      await page.goto(at('data/leads'));
      await page.getByLabel('Select Ames').check();
      await page.getByLabel('Select Berg').check();
      await page.getByRole('button', { name: 'Merge two selected' }).click();
      await check('the merge of two records');
      await page.goto(at('data/leads'));
      await page.getByLabel('Select Ames').check();
      await check('a selection');
      await page.getByRole('button', { name: 'Delete selected' }).click();
      await check('the deletion of a selection');
      await page.goto(at('data/leads?sort=status,-last_name'));
      await check('a list with two sort keys');
      await page.getByLabel('Select Ames').check();
      await page.getByLabel('Select Berg').check();
      await page.getByRole('button', { name: 'Edit selected' }).click();
      await check('the field of a selection');
      await page.getByLabel('Field').selectOption('rating');
      await page.getByRole('button', { name: 'Continue' }).click();
      await check('the value of a selection');
      await page.goto(at('data/leads'));
      await page.getByRole('link', { name: 'Ames', exact: true }).first().click();
      await check('a record with its neighbors');
      await page.goto(at('data/leads/board'));
      await page.getByLabel('Move Ames').click();
      await check('a board');
      await page.goto(at('data/leads'));
      await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true');
      await check('records, all unfolded');
      await page.goto(at('data/leads/views/new?rating=Hot&status=Working+-+Contacted'));
      await page.getByLabel('Name').fill('Hot and contacted');
      await page.getByLabel('Share with all members of the organization').check();
      await check('a new view');
      await page.getByRole('button', { name: 'Save view' }).click();
      await page.getByRole('status').waitFor();
      await page.goto(`${page.url()}&q=ames`);
      await page.getByText('Filter', { exact: true }).click();
      await check('a saved view');
      // On phones, the open menu covers the link.
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: 'Edit view' }).click();
      await check('changing a view');
      await page.getByRole('link', { name: 'Delete view' }).click();
      await check('deleting a view');
      await page.goto(at('forgetting/find'));
      await check('forgetting');
      await page.getByLabel('The person’s records').fill('leads?email=ames@people.example');
      await page.getByLabel('Search terms unique to this person').fill('ames@people.example');
      await page.getByRole('button', { name: 'Find data' }).click();
      await page.getByLabel('Type “erase”').waitFor();
      await check('the data about a person');
      await page.getByLabel('Type “erase”').fill('erase');
      await page.getByRole('button', { name: 'Erase permanently' }).click();
      await page.getByText('All data found about this person has been erased.').waitFor();
      await check('an erased person');
      await page.goto(at('data/leads/import'));
      const file = { name: 'leads.csv', mimeType: 'text/csv' };
      const buffer = Buffer.from('last_name,lead_score\nAda,1\nGrace,x\n');
      await page.getByLabel('File').setInputFiles({ ...file, buffer });
      await page.getByRole('button', { name: 'Check file' }).click();
      await page.getByRole('button', { name: 'Import 1 record' }).click();
      await page.waitForURL(/\/jobs\/\d+$/);
      await page.getByText('Completed').waitFor();
      await check('an import with errors');
      for (const path of [
        'data/leads?rating=Hot&by=owner_id',
        'data/leads/new',
        'data/leads/import',
        'data/cases',
      ].map(at)) {
        await page.goto(path);
        await check(path);
      }
      for (const path of [
        ...['keys', 'members', 'profiles', 'activity', 'integrations', 'deliveries', 'partners'].map(at),
        ...['events', 'events/add', 'events?show=event-deliveries', 'forgetting', 'jobs'].map(at),
        ...['teams', 'teams?show=team-members', 'teams/create', 'teams/add'].map(at),
        ...['deliveries?status=dead', 'keys?show=revoked', 'keys?q=nothing', 'members?show=invitations'].map(
          at,
        ),
        ...['partners?show=payments', 'integrations/add', 'keys/create?at=q%3Dx'].map(at),
        '/setup/organizations',
        ...['rename', 'phone-numbers', 'delete'].map((page) => `/setup/organizations/${acme.slug}/${page}`),
        '/setup/me',
        '/setup/shortcuts',
        '/setup/o/none/keys',
      ]) {
        await page.goto(path);
        await check(path);
      }
    });
  }

  test('a printed record consists of its values and its history, without controls', async () => {
    const { instance, open } = world();
    const acme = await instance.organization(fresh('acme'));
    const { json } = await instance.call('POST /api/v1/leads', {
      key: acme.key,
      body: { last_name: 'Ames', email: 'ames@people.example' },
    });
    const page = await open();
    await logIn(page, `admin@${acme.slug}.example`);
    await page.goto(`/setup/o/${acme.slug}/data/leads/${json.id}`);
    const controls = page.locator('button, input, textarea, select, nav, summary').filter({ visible: true });
    assert.ok((await controls.count()) > 0);
    await page.emulateMedia({ media: 'print' });
    assert.deepEqual(await controls.allInnerTexts(), []);
    assert.ok(await page.getByText('ames@people.example').first().isVisible());
    assert.ok(await page.getByRole('heading', { name: 'Timeline' }).isVisible());
  });
});
