// A real browser on a real instance. Script errors, policy violations and requests to other origins fail the test.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { chromiumPath, launch } from './chromium.ts';
import { type Driver, type Instance, startInstance } from './instance.ts';
import { patienceMs } from './promised.ts';

/** An instance and its pages. */
export interface World {
  readonly instance: Instance;
  /** Opens a page in a new browser context with its own cookies. It is closed after the test. */
  readonly open: (options?: BrowserContextOptions) => Promise<Page>;
}

/** Pages whose tests answer dialogs themselves. */
export const answering = new WeakSet<Page>();

/** Pages whose scripts send requests that fail. The browser reports these requests as errors. */
export const failing = new WeakSet<Page>();

/** Shared by all suites in this process. Each page has its own context. */
let launched: Promise<Browser> | undefined;
after(async () => (await launched)?.close());

/**
 * Runs a suite in the system's Chromium. If Chromium is missing, the suite is skipped with a warning, or fails if
 * CI=true.
 */
export function inBrowser(
  name: string,
  suite: (world: () => World) => void,
  options: { driver?: Driver } & NonNullable<Parameters<typeof startInstance>[1]> = {},
): void {
  if (chromiumPath() === undefined) {
    if (process.env.CI === 'true') {
      test(name, () => assert.fail('no Chromium: CI must install it or set CHROMIUM_PATH'));
      return;
    }
    process.stderr.write(
      `\n*** SKIPPED for want of Chromium (install it or set CHROMIUM_PATH): ${name} ***\n\n`,
    );
    describe(name, { skip: 'no Chromium' }, () => {});
    return;
  }
  const { driver = 'embedded', ...rest } = options;
  describe(name, () => {
    let instance: Instance;
    let browser: Browser;
    let watched: { context: BrowserContext; problems: () => string[] }[] = [];
    before(async () => {
      launched ??= launch();
      [instance, browser] = await Promise.all([startInstance(driver, rest), launched]);
    });
    afterEach(async () => {
      const all = watched;
      watched = [];
      const problems = all.flatMap((each) => each.problems());
      await Promise.all(all.map((each) => each.context.close()));
      assert.deepEqual(problems, [], 'unexpected requests, dialogs or errors');
    });
    after(() => instance.close());
    suite(() => ({
      instance,
      open: async (contextOptions) => {
        const context = await browser.newContext({ baseURL: instance.url, ...contextOptions });
        context.setDefaultTimeout(patienceMs);
        watched.push({ context, problems: await watch(context, contextOptions?.baseURL ?? instance.url) });
        return context.newPage();
      },
    }));
  });
}

/** Collects requests to other origins, dialogs, script and console errors, and policy violations. */
async function watch(context: BrowserContext, origin: string): Promise<() => string[]> {
  const problems: string[] = [];
  const errors: { text: string; url: string }[] = [];
  const refused = new Set<string>();
  await context.addInitScript(`
    document.addEventListener('securitypolicyviolation', (event) =>
      console.error('policy violated: ' + event.violatedDirective + ' ' + event.blockedURI));
  `);
  context.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !/^(data|blob|about):/.test(url)) problems.push(`requested ${url}`);
  });
  context.on('response', (response) => {
    if (response.request().isNavigationRequest()) refused.add(response.url());
  });
  context.on('dialog', (dialog) => {
    const page = dialog.page();
    if (page !== null && answering.has(page)) return;
    // Pages with unsaved changes ask before they are left.
    if (dialog.type() === 'beforeunload') return dialog.accept();
    problems.push(`opened a dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  const isExpectedOf = (page: Page | null, text: string) =>
    page !== null &&
    failing.has(page) &&
    /^Failed to load resource: |^(TypeError: )?Failed to fetch/.test(text);
  context.on('weberror', (error) => {
    const { message } = error.error();
    if (!isExpectedOf(error.page(), message)) problems.push(`script failed: ${message}`);
  });
  context.on('console', (message) => {
    const isExpected = isExpectedOf(message.page(), message.text());
    if (message.type() === 'error' && !isExpected)
      errors.push({ text: message.text(), url: message.location().url });
  });
  // The console also reports pages with an error status. The tests check the status themselves.
  const isOfPage = ({ text, url }: { text: string; url: string }) =>
    /^Failed to load resource: .* status of 4\d\d/.test(text) && refused.has(url);
  return () => [
    ...problems,
    ...errors.filter((error) => !isOfPage(error)).map(({ text, url }) => `console: ${text} (${url})`),
  ];
}
