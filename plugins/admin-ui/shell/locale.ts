import type { FastifyRequest } from 'fastify';

/** Returns the locale in which numbers and dates are formatted: the browser's first known language. */
export function localeOf({ headers }: FastifyRequest): string {
  const tags = (headers['accept-language'] ?? '').slice(0, 200).split(',');
  for (const tag of tags) {
    const name = tag.split(';')[0]?.trim() ?? '';
    if (!/^[A-Za-z]{2,3}(-[A-Za-z]{2})?$/.test(name)) continue;
    const [supported] = Intl.DateTimeFormat.supportedLocalesOf(name);
    if (supported !== undefined) return supported;
  }
  return 'en';
}
