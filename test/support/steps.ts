// Steps that people take on the setup screens, for tests in a browser.
import type { Page } from 'playwright-core';
import type { World } from './browser.ts';
import { logIn } from './chromium.ts';
import type { Organization } from './instance.ts';
import { fresh } from './people.ts';

/** The steps, on the world of a suite. */
export function steps(world: () => World) {
  /** An organization of the test's own, and its administrator at a browser. */
  const enter = async (options: Parameters<World['open']>[0] = {}) => {
    const acme = await world().instance.organization(fresh('acme'));
    const page = await world().open(options);
    await logIn(page, `admin@${acme.slug}.example`);
    return { acme, page };
  };
  const go = (page: Page, { slug }: Organization, section: string) =>
    page.goto(`/setup/o/${slug}/${section}`);
  const makeKey = async (page: Page, name: string, profile = 'administrator') => {
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Profile', { exact: true }).selectOption({ label: profile });
    await page.getByLabel('Expires', { exact: true }).selectOption({ label: 'in 30 days' });
    await page.getByRole('button', { name: 'Make key' }).click();
    return page.getByLabel('API key', { exact: true }).inputValue();
  };
  const statusOf = async (key: string) => (await world().instance.call('GET /api/v1/leads', { key })).status;
  const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
  return { enter, go, makeKey, statusOf, row };
}
