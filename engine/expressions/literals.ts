import { fieldTypes, isDate } from '../fields/index.ts';

const minInt64 = -(2n ** 63n);
const maxInt64 = 2n ** 63n - 1n;

/** Returns whether an integer fits 64 bits. */
export const isInt64 = (value: bigint): boolean => value >= minInt64 && value <= maxInt64;

/** Returns whether a text is a decimal number without an exponent and with a bounded number of digits. */
export const isDecimal = (text: string): boolean => /^\d{1,100}\.\d{1,100}$/.test(text);

/** Converts an RFC 3339 timestamp to PostgreSQL's format. Returns undefined if it is invalid. */
export const timestampText = (text: string): string | undefined => fieldTypes.timestamp.parse?.(text);

/** Returns a calendar date in PostgreSQL's format, or undefined if it is invalid. */
export const dateText = (text: string): string | undefined => (isDate(text) ? text : undefined);

/** Units of a duration in microseconds. */
const units: Readonly<Record<string, bigint>> = {
  h: 3_600_000_000n,
  m: 60_000_000n,
  s: 1_000_000n,
  ms: 1000n,
  us: 1n,
};

/**
 * Maximum length of a duration in hours. No expression is long enough to leave PostgreSQL's range of timestamps by
 * adding or subtracting durations.
 */
export const maxHours = 1_000_000;

/** Returns the number of days in a duration in PostgreSQL's format, or undefined if it is not a whole number. */
export function daysOf(duration: string): number | undefined {
  const [hours = '', ...rest] = duration.split(':');
  const days = Number(hours) / 24;
  return rest.every((part) => Number(part) === 0) && Number.isInteger(days) ? days : undefined;
}

/**
 * Converts a duration, for example "1h30m" or "-0.5s", to PostgreSQL's format.
 * @returns undefined if it is invalid, longer than {@link maxHours} or not a whole number of microseconds
 */
export function durationText(text: string): string | undefined {
  const match = /^(-?)((?:\d{1,12}(?:\.\d{1,6})?(?:h|ms|m|us|s))+)$/.exec(text);
  if (match === null) return undefined;
  const [, sign = '', parts = ''] = match;
  let total = 0n;
  for (const [, whole = '', fraction = '', unit = ''] of parts.matchAll(/(\d+)(?:\.(\d+))?(h|ms|m|us|s)/g)) {
    // Scaled by 10^6 because of the fraction.
    total += BigInt(`${whole}${fraction.padEnd(6, '0')}`) * (units[unit] ?? 0n);
  }
  const scale = 1_000_000n;
  const microseconds = total / scale;
  if (total % scale !== 0n || microseconds > BigInt(maxHours) * (units.h ?? 0n)) return undefined;
  const two = (value: bigint) => String(value).padStart(2, '0');
  const seconds = microseconds / scale;
  const clock = `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}`;
  return `${sign}${clock}.${String(microseconds % scale).padStart(6, '0')}`;
}
