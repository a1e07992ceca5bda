// The API explorer: after a key is pasted, the first click sends a request. axe finds no serious or critical issues.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Page, Request } from 'playwright-core';
import { objections } from '../support/axe.ts';
import { inBrowser } from '../support/browser.ts';
import { patienceMs } from '../support/promised.ts';
import { definitions, make } from '../support/records.ts';

/** Operations that readers try first, with the expected URLs and status codes. */
const firstClicks = [
  { id: 'GET/api/v1/accounts', url: '/api/v1/accounts', status: 200 },
  { id: 'GET/api/v1/accounts/{id}', url: '/api/v1/accounts/1', status: 200 },
  { id: 'POST/api/v1/accounts', url: '/api/v1/accounts', status: 201 },
];
const looks = [
  { colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { colorScheme: 'dark', viewport: { width: 390, height: 844 } },
] as const;

/** Opens the explorer and pastes a key into the first token field. */
async function openWith(page: Page, key: string): Promise<void> {
  await page.goto('/docs');
  await page.getByText('To try it, paste an API key').waitFor();
  await page.getByLabel('Bearer Token').first().click();
  await page.keyboard.insertText(key);
}

/** Checks that an operation's "Test Request" can be clicked, and presses it. */
async function openRequest(page: Page, id: string): Promise<void> {
  const operation = page.locator(`[id="api-1/tag/accounts/${id}"]`);
  // Operations are rendered when they are near the viewport.
  await operation.scrollIntoViewIfNeeded();
  const button = operation.getByRole('button', { name: 'Test Request' });
  await button.click({ trial: true });
  // Operations above might still be rendered and move the button. If it moved between the press and the release of the
  // mouse button, the click would be lost. A key is not.
  await button.press('Enter');
  await page.getByRole('dialog').waitFor();
}

/** Clicks "Send". Returns the request and the status of its response. */
async function send(page: Page): Promise<{ request: Request; status: number }> {
  const [response] = await Promise.all([
    page.waitForResponse((response) => new URL(response.url()).pathname.startsWith('/api/')),
    page.getByRole('button', { name: /^Send \w+ request to/ }).click(),
  ]);
  await page.locator('.response-section-content-body').first().waitFor();
  return { request: response.request(), status: response.status() };
}

/** Returns the axe violations that remain after Scalar has rendered the page, which takes several steps. */
async function lastingObjections(page: Page): Promise<string[]> {
  const end = performance.now() + patienceMs;
  let lasting = await objections(page);
  while (lasting.length > 0 && performance.now() < end) {
    await pause(500);
    lasting = await objections(page);
  }
  return lasting;
}

inBrowser('the explorer', (world) => {
  test('the first click sends no filters or preferences, and its response is visible on a phone', async () => {
    const { instance, open } = world();
    const { key } = await instance.organization('explored');
    for (const definition of definitions) await make(instance, key, definition);
    const page = await open({ viewport: { width: 390, height: 844 }, reducedMotion: 'reduce' });
    await openWith(page, key);
    for (const { id, url, status } of firstClicks) {
      await openRequest(page, id);
      const sent = await send(page);
      assert.deepEqual([sent.request.url(), sent.status], [instance.url + url, status]);
      const headers = await sent.request.allHeaders();
      for (const name of ['prefer', 'if-match', 'if-none-match', 'idempotency-key'])
        assert.equal(headers[name], undefined, name);
      const [x = 0, y = 0] = await page
        .getByRole('region', { name: 'Response', exact: true })
        .boundingBox()
        .then((box) => [box?.x, box?.y]);
      assert.ok(x < 390 && y < 400, `the response is visible: ${x}, ${y}`);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
    }
    const { data } = (await instance.call('GET /api/v1/accounts?sort=id', { key })).json as {
      data: { name: string }[];
    };
    assert.equal(data[1]?.name, 'Nordlicht Energie AG', 'the first sample');
  });

  for (const look of looks) {
    const { width } = look.viewport;
    test(`axe, ${look.colorScheme}, ${width} pixels wide`, async () => {
      const { instance, open } = world();
      const { key } = await instance.organization(`axe-${look.colorScheme}-${width}`);
      const page = await open({ bypassCSP: true, reducedMotion: 'reduce', ...look });
      await openWith(page, key);
      assert.deepEqual(await lastingObjections(page), [], 'the page');
      const wide = await page.evaluate('document.documentElement.scrollWidth');
      assert.ok(Number(wide) <= width, `no wider than the window: ${wide}`);
      await openRequest(page, 'POST/api/v1/accounts');
      await send(page);
      assert.deepEqual(await lastingObjections(page), [], 'a request and its response');
    });
  }
});
