import type handlebars from 'handlebars';

type Engine = typeof handlebars;

/** Units of time with their seconds, the largest first. */
const units = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/** How long ago a time is, or how far ahead, in words. */
function relative(at: Date, now = Date.now()): string {
  const seconds = (at.getTime() - now) / 1000;
  const unit = units.find(([, length]) => Math.abs(seconds) >= length);
  return unit === undefined ? 'just now' : words.format(Math.trunc(seconds / unit[1]), unit[0]);
}

/** A time to the second, with its zone. */
export const exactTime = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** Adds the helpers that the views use. Handlebars escapes what they return. */
export function withHelpers(engine: Engine): Engine {
  engine.registerHelper('time', (value: Date | string | null | undefined) => {
    if (value == null) return 'never';
    const at = new Date(value);
    // PostgreSQL stores times that JavaScript has no date for.
    if (Number.isNaN(at.getTime())) return String(value);
    return new engine.SafeString(
      `<time datetime="${at.toISOString()}" title="${exactTime(at)}">${relative(at)}</time>`,
    );
  });
  engine.registerHelper('equal', (a: unknown, b: unknown) => a === b);
  return engine;
}
