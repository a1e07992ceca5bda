// Screenshots for visual comparison, in the folder named by SCREENSHOTS.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';

const folder = process.env.SCREENSHOTS ?? '';

/** Takes a screenshot of a whole page as it is, if SCREENSHOTS is set. Its file is named after the page, width and mode. */
export async function takePicture(page: Page, name: string, mode: 'light' | 'dark'): Promise<void> {
  if (folder === '') return;
  mkdirSync(folder, { recursive: true });
  const title = name.replace(/\W+/g, '-').replace(/^-|-$/g, '');
  const path = join(folder, `${title}-${page.viewportSize()?.width}-${mode}.jpg`);
  await page.screenshot({ path, type: 'jpeg', quality: 80, fullPage: true });
}
