import type { FastifyRequest } from 'fastify';
import { type Language, languages } from './catalogue.ts';

/** Maximum number of characters of the `Accept-Language` header to read. */
const maxHeaderLength = 200;

/** Returns the browser's languages, preferred first. */
function acceptedTags({ headers }: Pick<FastifyRequest, 'headers'>): readonly string[] {
  return (headers['accept-language'] ?? '')
    .slice(0, maxHeaderLength)
    .split(',')
    .map((item) => {
      const [tag = '', ...parameters] = item.split(';').map((part) => part.trim());
      const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
      return { tag, quality: quality === undefined ? 1 : Number(quality) || 0 };
    })
    .filter(({ quality }) => quality > 0)
    .toSorted((a, b) => b.quality - a.quality)
    .map(({ tag }) => tag);
}

/** Returns the locale in which numbers and dates are formatted: the browser's first known language. */
export function localeOf(request: FastifyRequest): string {
  for (const name of acceptedTags(request)) {
    if (!/^[A-Za-z]{2,3}(-[A-Za-z]{2})?$/.test(name)) continue;
    const [supported] = Intl.DateTimeFormat.supportedLocalesOf(name);
    if (supported !== undefined) return supported;
  }
  return 'en';
}

/** Returns the language of a page's texts: the browser's first language that the admin UI has, or English. */
export function languageOf(request: Pick<FastifyRequest, 'headers'>): Language {
  const bases = acceptedTags(request).map((tag) => tag.split('-')[0]?.toLowerCase());
  for (const base of bases) {
    const language = languages.find((name) => name === base);
    if (language !== undefined) return language;
  }
  return 'en';
}
