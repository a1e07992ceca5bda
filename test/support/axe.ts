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

/** What axe finds serious or critical on a page, as lines. */
export async function objections(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const { violations, passes } = (await page.evaluate('axe.run(document)')) as {
    violations: Violation[];
    passes: unknown[];
  };
  assert.ok(passes.length > 5, 'axe looked');
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}
