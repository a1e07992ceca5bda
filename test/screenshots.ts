// Creates the screenshots and the animated walk-through in docs/images from a fresh demo instance: npm run screenshots.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launch, logIn } from './support/chromium.ts';
import { walkthrough } from './support/walkthrough.ts';

const root = join(import.meta.dirname, '..');
const images = join(root, 'docs/images');
/** Maximum size of a picture, and of the walk-through, in bytes. */
const [maxBytes, maxAnimationBytes] = [200_000, 2_000_000];

interface Started {
  readonly url: string;
  readonly email: string;
  readonly password: string;
}

/** Serves the demo organization as `npm start` does. */
async function serve(dataFolder: string): Promise<{ started: Started; stop: () => Promise<void> }> {
  const child = spawn(process.execPath, ['app/main.ts', 'serve', '--json'], {
    cwd: root,
    env: { ...process.env, HOST: '127.0.0.1', PORT: '0', DATA_DIR: dataFolder, DATABASE_URL: undefined },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  const first = await Promise.race([
    once(child.stdout, 'data'),
    exit.then(([code]) => {
      throw new Error(`the instance ended with ${code}`);
    }),
  ]);
  return {
    started: JSON.parse(String(first[0])) as Started,
    stop: async () => {
      child.kill('SIGTERM');
      await exit;
    },
  };
}

/** Opens a form, fills in text fields and choices by label, and submits it. */
async function send(
  page: Page,
  path: string,
  texts: Labelled,
  choices: Labelled,
  button: string,
): Promise<void> {
  await page.goto(`/setup/o/demo/${path}`);
  for (const [label, text] of Object.entries(texts)) await page.getByLabel(label, { exact: true }).fill(text);
  for (const [label, choice] of Object.entries(choices)) {
    await page.getByLabel(label, { exact: true }).selectOption({ label: choice });
  }
  await page.getByRole('button', { name: button, exact: true }).click();
}
type Labelled = Readonly<Record<string, string>>;

/** Fills the demo organization with example data. */
async function furnish(page: Page): Promise<void> {
  for (const [name, grants] of Object.entries({
    'Website forms': ['leads:create', 'contacts:create'],
    Sales: ['accounts', 'contacts', 'leads', 'opportunities'].flatMap((object) =>
      ['list', 'read', 'create', 'update'].map((action) => `${object}:${action}`),
    ),
  })) {
    await send(page, 'profiles/create', { Name: name }, {}, 'Create profile');
    await page.getByRole('link', { name, exact: true }).click();
    for (const grant of grants) await page.locator(`input[value="${grant}"]`).check();
    await page.getByRole('button', { name: 'Save profile' }).click();
  }
  for (const [email, profile] of Object.entries({
    'sofia@demo.example': 'Sales',
    'jonas@demo.example': 'read-only',
  })) {
    await send(page, 'members/invite', { 'Email address': email }, { Profile: profile }, 'Invite member');
  }
  for (const [name, profile, expires] of [
    ['Data warehouse', 'read-only', 'in a year'],
    ['Landing pages', 'Website forms', 'never'],
    ['Trade fair app', 'Sales', 'in 30 days'],
    ['Website', 'Website forms', 'in 90 days'],
  ] as const) {
    await send(page, 'keys/create', { Name: name }, { Profile: profile, Expires: expires }, 'Create key');
  }
}

/** Adds channels with made-up secrets. */
async function integrate(page: Page): Promise<void> {
  for (const [provider, name, label] of [
    ['telegram', 'Support bot', 'Secret token'],
    ['whatsapp', 'Sales line', 'App secret'],
  ] as const) {
    const texts = { Name: name, [label]: randomBytes(16).toString('hex') };
    await send(page, `integrations/add?provider=${provider}`, texts, {}, 'Add integration');
  }
}

async function picture(page: Page, name: string, height?: number): Promise<void> {
  const path = join(images, `${name}.png`);
  const { width = 0, height: viewport = 0 } = page.viewportSize() ?? {};
  await page.screenshot({
    path,
    ...(height === undefined ? {} : { clip: { x: 0, y: 0, width, height: Math.min(height, viewport) } }),
  });
  const { size } = statSync(path);
  process.stdout.write(`${name}.png ${Math.round(size / 1000)} kB\n`);
  if (size > maxBytes) throw new Error(`${name}.png is too large for a repository`);
}

async function take(browser: Browser, { url, email, password }: Started): Promise<void> {
  const context = await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.goto('/setup/login');
  await picture(page, 'login');
  await logIn(page, email, password);
  await furnish(page);
  await page.goto('/setup/o/demo/keys');
  await page.getByLabel('Actions for Trade fair app').click();
  await page.getByRole('link', { name: 'Revoke Trade fair app' }).click();
  await page.getByRole('button', { name: 'Revoke key' }).click();
  await integrate(page);
  await page.goto('/setup/o/demo/data/leads?sort=last_name');
  await picture(page, 'records');
  await page.goto('/setup/o/demo/data/opportunities/1');
  await picture(page, 'record');
  await page.goto('/setup/o/demo/data/opportunities/board');
  await picture(page, 'board');
  await page.goto('/setup/o/demo');
  await page.evaluate("document.querySelector('.chart').scrollIntoView()");
  await picture(page, 'home');
  for (const name of ['keys', 'members', 'integrations', 'activity'] as const) {
    await page.goto(`/setup/o/demo/${name}`);
    await picture(page, name);
  }
  await page.goto('/setup/o/demo/profiles');
  await picture(page, 'profiles');
  await page.goto('/docs/leads');
  const list = page.locator('#listLeads');
  await list.getByRole('button', { name: 'Send request' }).click();
  await list.getByRole('status').waitFor();
  await page.evaluate('scrollTo(0, 0)');
  await picture(page, 'explorer');

  const phone = await browser.newContext({
    baseURL: url,
    viewport: { width: 390, height: 844 },
    deviceScaleFactor: 2,
    storageState: await context.storageState(),
  });
  const small = await phone.newPage();
  await small.goto('/setup/o/demo/data/leads');
  await picture(small, 'phone');
}

/** Records a walk-through: find a lead, edit it, undo, log a note, move a deal. */
async function walk(browser: Browser, { url, email, password }: Started): Promise<void> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: 1280, height: 720 },
    reducedMotion: 'reduce',
    bypassCSP: true,
  });
  const page = await context.newPage();
  await page.goto('/setup/login');
  await logIn(page, email, password);
  await page.goto('/setup/o/demo');
  const { frame, save } = walkthrough(page);
  await frame('Home: what changed, and the pipeline', 2);
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search or command' }).waitFor();
  await page.keyboard.type('nygaard');
  await page.getByRole('option').first().waitFor();
  await frame('⌘K, a name and Enter: any record, page or action');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Kelsey Nygaard' }).waitFor();
  await frame('A record with its timeline');
  await page
    .locator('dl > div', { has: page.locator('dt', { hasText: /^Rating$/ }) })
    .locator('dd')
    .first()
    .click();
  await page.getByLabel('Rating', { exact: true }).waitFor();
  await frame('Click a value to edit it');
  await page.getByLabel('Rating', { exact: true }).selectOption({ label: 'Warm' });
  await page.getByRole('status').waitFor();
  await frame('Saved, with undo');
  await page.getByLabel('Note', { exact: true }).fill('Called back. Wants a quote by Friday.');
  await page.getByRole('button', { name: 'Add note' }).click();
  await page.getByRole('status').waitFor();
  await frame('Notes and changes in one timeline');
  await page.goto('/setup/o/demo/data/opportunities/board');
  await page.keyboard.press('j');
  await frame('A board, with totals by stage');
  await page.keyboard.press('Shift+ArrowRight');
  await page.getByRole('status').waitFor();
  await frame('Drag a card, or press Shift and an arrow key');
  await page.goto('/setup/o/demo/data/leads?rating=Hot');
  await frame('Lists with filters, views and bulk actions');
  await page.goto('/docs/leads');
  await frame('And every resource is an API, described', 2.5);
  const size = await save(join(images, 'walkthrough.webp'));
  process.stdout.write(`walkthrough.webp ${Math.round(size / 1000)} kB\n`);
  if (size > maxAnimationBytes) throw new Error('walkthrough.webp is too large for a repository');
}

mkdirSync(images, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), 'crm-screenshots-'));
const { started, stop } = await serve(folder);
const browser = await launch();
try {
  await take(browser, started);
  await walk(browser, started);
} finally {
  await browser.close();
  await stop();
  rmSync(folder, { recursive: true, force: true });
}
