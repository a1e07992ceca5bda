// Parses numbers without rounding. JSON.parse rounds integers beyond 2^53, and a rounded ID would refer to another
// record.

/** A JSON number that a JavaScript number cannot represent exactly. `source` is its text in the body. */
export class ExactNumber {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
  toString(): string {
    return this.source;
  }
}

const integerPattern = /^(0|-?[1-9]\d{0,18})$/;
const min = -(2n ** 63n);
const max = 2n ** 63n - 1n;

/**
 * Validates a canonical decimal integer in the signed 64-bit range.
 * @returns the text, or undefined if it is anything else, for example "01", "+1", "1.0" or 2^63
 */
export function int64(text: string): string | undefined {
  if (!integerPattern.test(text)) return undefined;
  if (text.length < 19) return text;
  const value = BigInt(text);
  return value >= min && value <= max ? text : undefined;
}

/** Returns whether a text can be a row ID: a positive integer of at most 18 digits. */
export const isRowId = (text: unknown): text is string =>
  typeof text === 'string' && /^[1-9]\d{0,17}$/.test(text);

/** Returns a JSON integer as text, or undefined if it is not an integer in the signed 64-bit range. */
export function integerText(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? int64(String(value + 0)) : undefined;
  return value instanceof ExactNumber ? int64(value.source) : undefined;
}

const decimalPattern = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;
const maxDigits = 100;
/** Maximum length of a number's text. Enough for the smallest double with 100 digits, written without an exponent. */
const maxLength = 500;

/**
 * Returns a JSON number as decimal text, without rounding.
 * @returns undefined if the value is not a number, has more than 100 significant digits, or is outside the range of a
 *   double, like 1e400 or 1e-400
 */
export function decimalText(value: unknown): string | undefined {
  const source = typeof value === 'number' ? String(value) : value instanceof ExactNumber ? value.source : '';
  // Checked first, because the following steps take quadratic time.
  if (source.length > maxLength) return undefined;
  const match = decimalPattern.exec(source);
  if (match === null) return undefined;
  const significant = match[3] === undefined ? (match[2] ?? '').replace(/0+$/, '') : `${match[2]}${match[3]}`;
  const digits = significant.replace(/^0+/, '');
  if (digits.length > maxDigits) return undefined;
  const magnitude = Number(source);
  if (!Number.isFinite(magnitude) || (magnitude === 0 && digits !== '')) return undefined;
  return source;
}
