// Screenshots for visual comparison, in the folder named by SCREENSHOTS: at widths of 1280 and 390 pixels, in
// light and dark mode.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';

const folder = process.env.SCREENSHOTS ?? '';

/** Takes the four screenshots of a page if SCREENSHOTS is set, and restores the page's state. */
export async function takePictures(
  page: Page,
  name: string,
  look: { readonly colorScheme: 'light' | 'dark'; readonly viewport: { width: number; height: number } },
): Promise<void> {
  if (folder === '') return;
  mkdirSync(folder, { recursive: true });
  const title = name.replace(/\W+/g, '-').replace(/^-|-$/g, '');
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const path = join(folder, `${title}-${width}-${colorScheme}.png`);
      await page.screenshot({ path, fullPage: true });
    }
  }
  await page.emulateMedia({ colorScheme: look.colorScheme });
  await page.setViewportSize(look.viewport);
}
