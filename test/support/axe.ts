// Runs axe on a page in a browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** axe's color rules. Light and dark mode differ only in color. */
export const ofColors = ['color-contrast', 'link-in-text-block'];

/**
 * Returns axe's serious and critical violations on a page, one per line.
 * @param rules rules to check (default: all)
 * @param strict rules of which minor violations are returned too
 */
export async function objections(
  page: Page,
  rules?: readonly string[],
  strict: readonly string[] = [],
): Promise<string[]> {
  // After a click, the page might not be complete yet.
  await page.waitForLoadState();
  await page.waitForFunction('!document.documentElement.hasAttribute("aria-busy")');
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe);
  const runOnly = rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } };
  const options = JSON.stringify({ resultTypes: ['violations'], ...runOnly });
  // axe describes every element that it lists. For passed rules, the count is enough.
  const { violations, passed } = (await page.evaluate(
    `axe.run(document, ${options})
      .then(({ violations, passes }) => ({ violations, passed: passes.length }))`,
  )) as { violations: Violation[]; passed: number };
  assert.ok(passed > (rules === undefined ? 5 : 0), 'axe checked the page');
  return violations
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || strict.includes(id))
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

/**
 * Checks that axe does not report violations on a page, that its landmarks have different names, and that the page is not wider than the window. Saves
 * a screenshot if SCREENSHOTS names a folder.
 */
export async function look(page: Page, name: string): Promise<void> {
  assert.deepEqual(await objections(page, undefined, ['landmark-unique']), [], name);
  const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
  assert.ok(Number(overflow) <= 0, `${name} is ${overflow} pixels too wide`);
  const folder = process.env.SCREENSHOTS;
  const width = page.viewportSize()?.width;
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}-${width}.png`, fullPage: true });
}
