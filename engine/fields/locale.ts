import { LRUCache } from 'lru-cache';

/** Formatters for one locale. */
interface Formatters {
  readonly integer: Intl.NumberFormat;
  readonly decimalMark: string;
  readonly day: Intl.DateTimeFormat;
  readonly moment: Intl.DateTimeFormat;
}

/** Formatters are expensive to create. Clients choose the locale, so the cache is bounded. */
const cache = new LRUCache<string, Formatters>({ max: 50 });

function formattersOf(locale: string): Formatters {
  const cached = cache.get(locale);
  if (cached !== undefined) return cached;
  const digits = { numberingSystem: 'latn' } as const;
  const integer = new Intl.NumberFormat(locale, digits);
  const day = {
    ...digits,
    ...({ year: 'numeric', month: 'short', day: 'numeric', timeZone: 'UTC' } as const),
  };
  const created = {
    integer,
    decimalMark: integer.formatToParts(0.5).find(({ type }) => type === 'decimal')?.value ?? '.',
    day: new Intl.DateTimeFormat(locale, day),
    moment: new Intl.DateTimeFormat(locale, { ...day, hour: 'numeric', minute: '2-digit' }),
  };
  cache.set(locale, created);
  return created;
}

/** Formats a decimal number in a locale without rounding it. @param text JSON number */
export function localNumber(text: string, locale: string): string {
  const [, whole, fraction] = /^(-?\d{1,40})(?:\.(\d{1,40}))?$/.exec(text) ?? [];
  // Exponents can stand for thousands of digits.
  if (whole === undefined) return text;
  const { integer, decimalMark } = formattersOf(locale);
  // The type of `format` does not declare strings, which are formatted exactly.
  const number = integer.format(whole as Intl.StringNumericLiteral);
  return fraction === undefined ? number : `${number}${decimalMark}${fraction}`;
}

/** Formats a date in a locale. @param text `YYYY-MM-DD` */
export const localDate = (text: string, locale: string): string => {
  const at = new Date(`${text}T00:00:00Z`);
  return Number.isNaN(at.getTime()) ? text : formattersOf(locale).day.format(at);
};

/** Formats a timestamp in a locale, in its own UTC offset, or only its date if the time is midnight. */
export function localMoment(text: string, locale: string): string {
  const [, date = '', time = ''] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)/.exec(text) ?? [];
  const at = new Date(`${date}T${time}Z`);
  if (Number.isNaN(at.getTime())) return text;
  const { day, moment } = formattersOf(locale);
  return (/^00:00(:00)?$/.test(time) ? day : moment).format(at);
}
