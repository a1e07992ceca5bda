// The system's Chromium, for tests and screenshots.
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';

/** The headless shell is first: it renders the same pages with half the CPU time. */
const usualPaths = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/snap/bin/chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/**
 * Returns the path of the system's Chromium: CHROMIUM_PATH or the usual path. Returns undefined if Chromium
 * is not installed.
 */
export function chromiumPath(): string | undefined {
  const given = process.env.CHROMIUM_PATH;
  return (given === undefined || given === '' ? usualPaths : [given]).find((path) => existsSync(path));
}

/** Starts Chromium. It can only reach this machine, because no other host name resolves. */
export function launch(): Promise<Browser> {
  const executablePath = chromiumPath();
  if (executablePath === undefined) throw new Error('no Chromium: install it or set CHROMIUM_PATH');
  return chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
    ],
  });
}

/** Logs in with the form and waits for the next page. */
export async function logIn(page: Page, email: string, password = 'a long enough password'): Promise<void> {
  await page.goto('/setup/login');
  await page.getByLabel('Email address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in', exact: true }).click();
  // On a phone, the link is in the drawer.
  await page
    .getByRole('button', { name: 'Log out', exact: true, includeHidden: true })
    .waitFor({ state: 'attached' });
  // Keyboard shortcuts work after the page's script has run.
  await page.waitForLoadState();
}
