// Numbers as they were written. JSON.parse rounds past 2^53, and a rounded link points to another row.

/** A JSON number that a JavaScript number cannot hold without change; `source` is its text in the body. */
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
 * A canonical decimal integer within signed 64 bits, as text.
 * @returns the same text, or undefined for anything else ("01", "+1", "1.0", 2^63 …)
 */
export function int64(text: string): string | undefined {
  if (!integerPattern.test(text)) return undefined;
  if (text.length < 19) return text;
  const value = BigInt(text);
  return value >= min && value <= max ? text : undefined;
}

/** Whether a text can be the id of a row: a positive integer, well within 64 bits. */
export const isRowId = (text: unknown): text is string =>
  typeof text === 'string' && /^[1-9]\d{0,17}$/.test(text);

/** A JSON integer as text, or undefined if it is not an integer in the signed 64-bit range. */
export function integerText(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? int64(String(value + 0)) : undefined;
  return value instanceof ExactNumber ? int64(value.source) : undefined;
}

const decimalPattern = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;
const maxDigits = 100;
/** Characters of the longest number that a double could hold with so many digits: 1e-323, written out. */
const maxLength = 500;

/**
 * A JSON number as decimal text, exact.
 * @returns undefined if it is not a number, has more than 100 significant digits, or is beyond what a
 *   reader with double precision could hold (1e400, 1e-400)
 */
export function decimalText(value: unknown): string | undefined {
  const source = typeof value === 'number' ? String(value) : value instanceof ExactNumber ? value.source : '';
  // Checked first: the rest takes quadratic time in the length.
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
