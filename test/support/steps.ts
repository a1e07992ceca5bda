// User actions in the admin UI, for browser tests.
import type { Page } from 'playwright-core';
import { tablesOf } from '../../engine/tables/handle.ts';
import type { World } from './browser.ts';
import { logIn } from './chromium.ts';
import type { Organization } from './instance.ts';
import { delivered, unmatchedPayment } from './partners.ts';
import { fresh } from './people.ts';

/** Returns the actions for a suite's world. */
export function steps(world: () => World) {
  /** Creates an organization for the test and opens a browser session for its administrator. */
  const enter = async (options: Parameters<World['open']>[0] = {}) => {
    const acme = await world().instance.organization(fresh('acme'));
    const page = await world().open(options);
    await logIn(page, `admin@${acme.slug}.example`);
    return { acme, page };
  };
  const go = (page: Page, { slug }: Organization, section: string) =>
    page.goto(`/setup/o/${slug}${section === '' ? '' : `/${section}`}`);
  const section = (page: Page, path: string) =>
    page.goto(`/setup/o/${new URL(page.url()).pathname.split('/')[3]}/${path}`);
  const makeKey = async (page: Page, name: string, profile = 'administrator') => {
    await section(page, 'keys/create');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Profile', { exact: true }).selectOption({ label: profile });
    await page.getByLabel('Expires', { exact: true }).selectOption({ label: 'in 30 days' });
    await page.getByRole('button', { name: 'Create key' }).click();
    return page.getByLabel('API key', { exact: true }).inputValue();
  };
  const makeProfile = async (page: Page, name: string) => {
    await section(page, 'profiles/create');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByRole('button', { name: 'Create profile' }).click();
  };
  /** Opens a row's menu and clicks a link or button in it. */
  const choose = async (page: Page, name: string, what: string) => {
    await page.getByLabel(`Actions for ${name}`, { exact: true }).first().click();
    await page
      .getByRole('link', { name: what })
      .or(page.getByRole('button', { name: what }))
      .first()
      .click();
  };
  const inviteMember = async (page: Page, email: string, profile = 'read-only') => {
    await section(page, 'members/invite');
    await page.getByLabel('Email address', { exact: true }).fill(email);
    await page.getByLabel('Profile', { exact: true }).selectOption({ label: profile });
    await page.getByRole('button', { name: 'Invite member' }).click();
  };
  const addIntegration = async (page: Page, name: string, provider = 'WhatsApp Cloud', secret = 'secret') => {
    await section(page, 'integrations/add');
    await page.getByRole('link', { name: provider }).click();
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.locator('input[name="secret"]').fill(secret);
    await page.getByRole('button', { name: 'Add integration' }).click();
    return {
      address: await page.getByLabel('Callback URL', { exact: true }).inputValue(),
      verifyToken: await page.getByLabel('Verify token, shown only once').inputValue(),
    };
  };
  /** Fills the partner and channel pages: an integration, deliveries in every state and payments without a lead. */
  const fillWebhooks = async (page: Page, acme: Organization, text: string) => {
    const { instance } = world();
    await addIntegration(page, text.slice(0, 200));
    const rows = tablesOf(instance.database).selectFrom('crm_integrations').select('id');
    const { id } = await rows.where('organization_id', '=', acme.id).executeTakeFirstOrThrow();
    for (const status of ['done', 'waiting', 'dead']) {
      const item = { event: `${status} ${text}`, payload: JSON.stringify({ text }), status };
      await delivered(instance, acme.id, String(id), { ...item, error: status === 'dead' ? text : '' });
    }
    const payload = JSON.stringify({ text });
    await unmatchedPayment(instance, acme.id, { event: text, customer: text.slice(0, 40), payload });
  };
  const statusOf = async (key: string) => (await world().instance.call('GET /api/v1/leads', { key })).status;
  const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
  return {
    ...{ enter, go, makeKey, makeProfile, choose, inviteMember },
    ...{ addIntegration, fillWebhooks, statusOf, row },
  };
}
