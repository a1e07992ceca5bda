import type handlebars from 'handlebars';

type Engine = typeof handlebars;

/** Units of time in seconds, largest first. */
const units = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/** Returns a relative time in words, for example "2 hours ago" or "in 3 days". */
function relative(at: Date, now = Date.now()): string {
  const seconds = (at.getTime() - now) / 1000;
  const unit = units.find(([, length]) => Math.abs(seconds) >= length);
  return unit === undefined ? 'just now' : words.format(Math.trunc(seconds / unit[1]), unit[0]);
}

/** Formats a time in UTC to the second. */
export const exactTime = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** Registers the helpers used by the views. Handlebars escapes the helpers' results. */
export function withHelpers(engine: Engine): Engine {
  engine.registerHelper('time', (value: Date | string | null | undefined) => {
    if (value == null) return 'never';
    const at = new Date(value);
    // PostgreSQL can store timestamps outside the range of JavaScript dates.
    if (Number.isNaN(at.getTime())) return String(value);
    return new engine.SafeString(
      `<time datetime="${at.toISOString()}" title="${exactTime(at)}">${relative(at)}</time>`,
    );
  });
  engine.registerHelper('equal', (a: unknown, b: unknown) => a === b);
  return engine;
}
