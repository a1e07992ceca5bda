// axe, run on a page in a browser.
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

/** Colors are all that differs between light and dark, and these are axe's rules about them. */
export const ofColors = ['color-contrast', 'link-in-text-block'];

/** What axe finds serious or critical on a page, as lines. @param rules those that count; default: all */
export async function objections(page: Page, rules?: readonly string[]): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe);
  const runOnly = rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } };
  const options = JSON.stringify({ resultTypes: ['violations'], ...runOnly });
  // It describes the elements of what it lists: of what is right, their number is enough.
  const { violations, passed } = (await page.evaluate(
    `axe.run(document, ${options})
      .then(({ violations, passes }) => ({ violations, passed: passes.length }))`,
  )) as { violations: Violation[]; passed: number };
  assert.ok(passed > (rules === undefined ? 5 : 0), 'axe looked');
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

/** Looks at a page: axe, and its width, which must not exceed the window's. Where SCREENSHOTS names a folder, keeps a picture. */
export async function look(page: Page, name: string): Promise<void> {
  assert.deepEqual(await objections(page), [], name);
  const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
  assert.ok(Number(overflow) <= 0, `${name} is ${overflow} pixels too wide`);
  const folder = process.env.SCREENSHOTS;
  const width = page.viewportSize()?.width;
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}-${width}.png`, fullPage: true });
}
