// axe finds no serious or critical issues on any page, in light or dark mode, on wide or narrow screens.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { objections, ofColors } from '../support/axe.ts';
import { inBrowser } from '../support/browser.ts';
import { logIn } from '../support/chromium.ts';
import { fresh } from '../support/people.ts';
import { takePictures } from '../support/pictures.ts';
import { steps } from '../support/steps.ts';

inBrowser('accessibility', (world) => {
  const { addIntegration, choose, fillWebhooks, inviteMember, makeKey, makeProfile } = steps(world);
  const wide = { width: 1280, height: 900 };
  for (const viewport of [wide, { width: 360, height: 740 }]) {
    test(`every page, ${viewport.width} pixels wide`, async () => {
      const { instance, open } = world();
      const acme = await instance.organization(fresh('acme'));
      const at = (section: string) => `/setup/o/${acme.slug}/${section}`;
      const page = await open({ bypassCSP: true, reducedMotion: 'reduce', colorScheme: 'light', viewport });
      const check = async (name: string) => {
        assert.deepEqual(await objections(page), [], name);
        if (viewport === wide) {
          await page.emulateMedia({ colorScheme: 'dark' });
          assert.deepEqual(await objections(page, ofColors), [], `${name}, dark`);
          await page.emulateMedia({ colorScheme: 'light' });
        }
        assert.equal(
          await page.getByRole('heading', { level: 1 }).count(),
          1,
          `${name}: one level 1 heading`,
        );
        assert.equal(await page.getByRole('main').count(), 1, name);
        assert.notEqual(await page.title(), '', name);
        if (viewport === wide) await takePictures(page, name, { colorScheme: 'light', viewport });
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
      await page.getByRole('link', { name: /^Undo/ }).click();
      await check('undo');
      await page.goto(at('data/leads'));
      await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true');
      await check('records, all unfolded');
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
      for (const path of ['data/leads?rating=Hot', 'data/leads/new', 'data/leads/import', 'data/cases'].map(
        at,
      )) {
        await page.goto(path);
        await check(path);
      }
      for (const path of [
        ...['keys', 'members', 'profiles', 'activity', 'integrations', 'deliveries', 'partners'].map(at),
        ...['events', 'events/add', 'event-deliveries', 'forgetting'].map(at),
        ...['deliveries?status=dead', 'keys?show=revoked', 'keys?q=nothing', 'members?show=invitations'].map(
          at,
        ),
        ...['partners?show=payments', 'integrations/add', 'keys/create?at=q%3Dx'].map(at),
        '/setup/organizations',
        ...['rename', 'delete'].map((page) => `/setup/organizations/${acme.slug}/${page}`),
        '/setup/me',
        '/setup/o/none/keys',
      ]) {
        await page.goto(path);
        await check(path);
      }
    });
  }
});
