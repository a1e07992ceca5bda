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

/** Returns the base of a language tag: "de" for "de-AT". */
const baseOf = (tag: string): string | undefined => tag.split('-')[0]?.toLowerCase();

/** Returns the language in the user's account, or undefined if the browser decides. */
const chosenLanguage = ({ person }: Pick<FastifyRequest, 'person'>): Language | undefined =>
  languages.find((name) => name === person?.session.user.language);

/**
 * Returns the locale in which numbers and dates are formatted: the browser's first known language or, if the user has chosen a
 * language, the browser's first variant of this language.
 */
export function localeOf(request: FastifyRequest): string {
  const language = chosenLanguage(request);
  for (const name of acceptedTags(request)) {
    if (!/^[A-Za-z]{2,3}(-[A-Za-z]{2})?$/.test(name)) continue;
    if (language !== undefined && baseOf(name) !== language) continue;
    const [supported] = Intl.DateTimeFormat.supportedLocalesOf(name);
    if (supported !== undefined) return supported;
  }
  return language ?? 'en';
}

/**
 * Returns the language of a page's texts: the language in the user's account, or the browser's first language that the admin UI
 * has, or English.
 */
export function languageOf(request: Pick<FastifyRequest, 'headers' | 'person'>): Language {
  const chosen = chosenLanguage(request);
  if (chosen !== undefined) return chosen;
  const bases = acceptedTags(request).map(baseOf);
  for (const base of bases) {
    const language = languages.find((name) => name === base);
    if (language !== undefined) return language;
  }
  return 'en';
}
