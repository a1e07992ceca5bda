import { relative } from 'node:path';
import helmet from '@fastify/helmet';
import view from '@fastify/view';
import type { FastifyInstance } from 'fastify';
import handlebars, { type HelperOptions } from 'handlebars';
import { projectFolder } from '../../../engine/config/index.ts';
import { assetUrl } from './assets.ts';
import { htmlText, type Language, languages } from './catalogue.ts';
import { hueOf, type IconName, iconHtml, initialsOf } from './icon.ts';
import { shellTexts } from './texts/index.ts';
import { partials } from './views.ts';

/** Units of time in seconds, largest first. */
const units = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

const relativeFormats = new Map(
  languages.map((language) => [language, new Intl.RelativeTimeFormat(language, { numeric: 'auto' })]),
);

/** Returns a relative time in words, for example "2 hours ago", "in 3 days" or "in a moment". */
function relativeTime(at: Date, language: Language, now = Date.now()): string {
  const seconds = (at.getTime() - now) / 1000;
  const unit = units.find(([, length]) => Math.abs(seconds) >= length);
  const format = relativeFormats.get(language);
  const t = shellTexts(language);
  if (unit === undefined && seconds >= 1) return t('soon');
  return unit === undefined || format === undefined
    ? t('justNow')
    : format.format(Math.trunc(seconds / unit[1]), unit[0]);
}

/** Formats a time in UTC to the second. */
export const exactTime = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** Returns the language of the page that a template is rendered for. Default: English. */
const pageLanguage = ({ data }: HelperOptions): Language =>
  (data as { readonly root?: { readonly language?: Language } } | undefined)?.root?.language ?? 'en';

/** Creates the template engine with the helpers and partial templates of all views. Handlebars escapes the helpers' results. */
function createEngine(): typeof handlebars {
  const engine = handlebars.create();
  engine.registerHelper(
    't',
    (name: string, options: HelperOptions) =>
      new engine.SafeString(htmlText(pageLanguage(options), name, options.hash as Record<string, string>)),
  );
  engine.registerHelper('time', (value: Date | string | null | undefined, options: HelperOptions) => {
    const language = pageLanguage(options);
    if (value == null) return shellTexts(language)('never');
    const at = new Date(value);
    // PostgreSQL can store timestamps outside the range of JavaScript dates.
    if (Number.isNaN(at.getTime())) return String(value);
    return new engine.SafeString(
      `<time datetime="${at.toISOString()}" title="${exactTime(at)}">${relativeTime(at, language)}</time>`,
    );
  });
  engine.registerHelper('equal', (a: unknown, b: unknown) => a === b);
  engine.registerHelper('asset', assetUrl);
  engine.registerHelper('icon', (name: IconName) => new engine.SafeString(iconHtml(name)));
  const letters = (kind: string, text: string, hue: number) =>
    new engine.SafeString(
      `<span class="${kind} hue-${hue}" aria-hidden="true">${engine.escapeExpression(text)}</span>`,
    );
  engine.registerHelper('avatar', (name: string) => letters('avatar', initialsOf(name), hueOf(name)));
  engine.registerHelper('tile', (label: string, hue: unknown) =>
    letters('tile', initialsOf(label).slice(0, 1), typeof hue === 'number' ? hue : hueOf(label)),
  );
  // Descriptions contain code between backticks.
  engine.registerHelper('prose', (text = '') => {
    const parts = engine.escapeExpression(text).split('&#x60;');
    return new engine.SafeString(
      parts
        .map((part, index) => (index % 2 === 1 && index < parts.length - 1 ? `<code>${part}</code>` : part))
        .join(''),
    );
  });
  for (const [name, text] of partials) engine.registerPartial(name, text);
  return engine;
}

/**
 * Registers the templates and the security headers of pages that share the admin UI's look.
 * @param layout the layout's path
 * @param styleHashes hashes of inline styles that the pages' scripts insert, as in a Content-Security-Policy
 */
export async function registerPages(
  app: FastifyInstance,
  { layout, styleHashes = [] }: { readonly layout: string; readonly styleHashes?: readonly string[] },
): Promise<void> {
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'", ...styleHashes],
        imgSrc: ["'self'", 'data:'],
        fontSrc: ["'self'"],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        frameAncestors: ["'none'"],
        baseUri: ["'none'"],
      },
    },
    xFrameOptions: { action: 'deny' },
    referrerPolicy: { policy: 'no-referrer' },
    strictTransportSecurity: false,
  });
  await app.register(view, {
    engine: { handlebars: createEngine() },
    root: projectFolder,
    viewExt: 'hbs',
    layout: relative(projectFolder, layout),
    production: true,
    options: { compileOptions: { preventIndent: true } },
  });
  app.addHook('onSend', async (_request, reply) => {
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
    // The time that developer tools show as the server's part of the wait.
    if (String(reply.getHeader('content-type')).startsWith('text/html'))
      reply.header('server-timing', `total;dur=${reply.elapsedTime.toFixed(1)}`);
  });
}
