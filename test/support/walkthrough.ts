// An animated walk-through of the admin UI: screenshots with captions, joined to an animated WebP.
import { writeFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import sharp from 'sharp';

/** Width of the picture in pixels, and its quality from 1 to 100. */
const [width, quality] = [960, 72];

/** Records the frames of a walk-through. */
export interface Walkthrough {
  /** Adds a frame with a caption. @param seconds how long it is shown */
  readonly frame: (caption: string, seconds?: number) => Promise<void>;
  /** Writes the picture. @returns its size in bytes */
  readonly save: (path: string) => Promise<number>;
}

/** Records a walk-through of a page. */
export function walkthrough(page: Page): Walkthrough {
  const frames: { readonly image: Buffer; readonly ms: number }[] = [];
  return {
    frame: async (caption, seconds = 1.6) => {
      await page.evaluate(showCaption(caption));
      const image = await page.screenshot();
      await page.evaluate(removeCaption);
      frames.push({ image: await sharp(image).resize({ width }).png().toBuffer(), ms: seconds * 1000 });
    },
    save: async (path) => {
      const images = frames.map(({ image }) => image);
      const delay = frames.map(({ ms }) => ms);
      const picture = await sharp(images, { join: { animated: true } })
        .webp({ quality, delay, loop: 0, effort: 6 })
        .toBuffer();
      writeFileSync(path, picture);
      return picture.length;
    },
  };
}

/** Returns a script that shows a caption at the bottom of the page. */
const showCaption = (text: string): string => `{
  const caption = document.createElement('div');
  caption.id = 'caption';
  caption.textContent = ${JSON.stringify(text)};
  caption.style.cssText = 'position: fixed; bottom: 20px; left: 50%; transform: translateX(-50%); padding: 10px 20px; border-radius: 10px; background: rgb(24 24 27 / 92%); color: white; font-size: 22px; z-index: 2147483647';
  (document.querySelector('dialog[open]') ?? document.body).append(caption);
}`;

const removeCaption = "document.getElementById('caption')?.remove()";
