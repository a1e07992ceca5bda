import { randomBytes } from 'node:crypto';

// Parses numbers without rounding. JSON.parse rounds integers beyond 2^53, and a rounded ID would refer to another
// record.

/** A JSON number, as written in `source`, that a JavaScript number cannot represent exactly. */
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

/** Returns whether a string can be a row ID: a positive integer of at most 18 digits. */
export const isRowId = (text: unknown): text is string =>
  typeof text === 'string' && /^[1-9]\d{0,17}$/.test(text);

/** Returns a JSON integer as text, or undefined if it is not an integer in the signed 64-bit range. */
export function integerText(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? int64(String(value)) : undefined;
  return value instanceof ExactNumber ? int64(value.source) : undefined;
}

const decimalPattern = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;
const maxDigits = 100;
/** Maximum length of a stored number: enough for the smallest double with 100 digits and without an exponent. */
const maxLength = 500;

/**
 * Returns a JSON number as decimal text, without rounding.
 * @returns undefined if the value is not a number, has more than 100 significant digits, or is outside the range of a
 *   double, for example 1e400 or 1e-400
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

/**
 * Compares a JSON number with a limit, without rounding.
 * @returns a negative number, 0 or a positive number; undefined if the value is not a number
 */
export function compareNumbers(value: unknown, limit: number): number | undefined {
  if (typeof value === 'number') return value - limit;
  const text = decimalText(value);
  if (text === undefined) return undefined;
  const [left, right] = [scaledDigits(text), scaledDigits(String(limit))];
  const scale = Math.min(left.exponent, right.exponent);
  const toScale = ({ digits, exponent }: typeof left) => digits * 10n ** BigInt(exponent - scale);
  const difference = toScale(left) - toScale(right);
  return difference === 0n ? 0 : difference < 0n ? -1 : 1;
}

/** Returns a decimal number as an integer and the power of ten by which it is multiplied. */
function scaledDigits(text: string): { readonly digits: bigint; readonly exponent: number } {
  const [, sign, whole = '', fraction = '', exponent = '0'] = decimalPattern.exec(text) ?? [];
  return { digits: BigInt(`${sign}${whole}${fraction}`), exponent: Number(exponent) - fraction.length };
}

/** Maximum nesting depth and default maximum number of values. They limit the parsing time to a few milliseconds. */
const [maxDepth, defaultMaxValues] = [200, 40_000];

/**
 * Parses JSON without rounding. Numbers that a double cannot represent exactly are returned as {@link ExactNumber}.
 * Runs in linear time and takes a few milliseconds for one megabyte.
 * @param maxValues maximum number of values
 * @throws SyntaxError for invalid JSON
 * @throws RangeError if a limit is exceeded. The message completes "it …".
 */
export const parseExactJson = (text: string, maxValues = defaultMaxValues): unknown =>
  parseWithin(text, maxValues, maxDepth);

/** Parses JSON that the service itself has written, like {@link parseExactJson} but without limits. */
export const parseOwnJson = (text: string): unknown =>
  parseWithin(text, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);

function parseWithin(text: string, valueLimit: number, depthLimit: number): unknown {
  const numbers = inexactNumbers(text, valueLimit, depthLimit);
  if (numbers.length === 0) return JSON.parse(text);
  let markedText = '';
  let copiedEnd = 0;
  for (const [index, { start, end }] of numbers.entries()) {
    // As with a number, an object is only valid as a value. A string would also be accepted as a key. It contains the
    // number's index, because JSON.parse would copy the digits of a long number.
    markedText += `${text.slice(copiedEnd, start)}{"${marker}":${index}}`;
    copiedEnd = end;
  }
  return restoreNumbers(
    JSON.parse(markedText + text.slice(copiedEnd)),
    numbers.map(({ start, end }) => new ExactNumber(text.slice(start, end))),
  );
}

/** Parses a JSON number without rounding. Returns undefined if the text is not a JSON number. */
export function jsonNumber(text: string): number | ExactNumber | undefined {
  numberPattern.lastIndex = 0;
  if (numberPattern.exec(text)?.[0] !== text) return undefined;
  return isInexact(text) ? new ExactNumber(text) : Number(text);
}

/** Key of the object that replaces a number for JSON.parse. A reviver would take a microsecond per value. */
const marker = randomBytes(16).toString('base64url');

/** The position of a number in the JSON text. */
interface Span {
  readonly start: number;
  readonly end: number;
}

const charCodeOf = (character: string): number => character.charCodeAt(0);
const [quote, backslash, comma, minus] = [
  charCodeOf('"'),
  charCodeOf('\\'),
  charCodeOf(','),
  charCodeOf('-'),
];
const [zero, nine, point] = [charCodeOf('0'), charCodeOf('9'), charCodeOf('.')];
const [smallE, largeE] = [charCodeOf('e'), charCodeOf('E')];
const [openList, closeList, openObject, closeObject] = [
  charCodeOf('['),
  charCodeOf(']'),
  charCodeOf('{'),
  charCodeOf('}'),
];

const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// Only numbers with many digits or a three-digit exponent can change when stored as a double.
const riskyPattern = /\d[\d.]{15}|[eE][+-]?\d{3}/;
const shortestRisky = '1e100'.length;

/**
 * Returns whether conversion to a double would change the value of a JSON number. Notation does not matter:
 * 10e-001, 1.0 and 1.00000000000000000 must be stored identically, although PostgreSQL would keep trailing
 * zeros. A number longer than the maximum counts as inexact without being converted, because no type accepts it.
 */
function isInexact(source: string): boolean {
  if (source.length > maxLength) return true;
  if (!riskyPattern.test(source)) return false;
  const doubleText = String(Number(source));
  return doubleText !== source && !isEqual(partsOf(doubleText), partsOf(source));
}

/**
 * The position of a number's significant digits in its text, and the power of ten of the first digit. The
 * range is empty for zero.
 */
interface Parts {
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly power: number;
}

/**
 * Finds the significant digits in one pass without copying them, because a body can contain a hundred thousand numbers.
 */
function partsOf(text: string): Parts {
  let [start, end, integerEnd, exponent] = [-1, 0, -1, text.length];
  for (let offset = 0; offset < text.length; offset++) {
    const charCode = text.charCodeAt(offset);
    if (charCode === point) integerEnd = offset;
    else if (charCode === smallE || charCode === largeE) {
      exponent = offset;
      break;
    } else if (charCode > zero && charCode <= nine) {
      if (start === -1) start = offset;
      end = offset + 1;
    }
  }
  if (start === -1) return { text, start: 0, end: 0, power: 0 };
  if (integerEnd === -1) integerEnd = exponent;
  const magnitude = start < integerEnd ? integerEnd - start : integerEnd - start + 1;
  const power = exponent === text.length ? 0 : Number(text.slice(exponent + 1));
  return { text, start, end, power: magnitude + power };
}

/** Returns whether two numbers have the same value. */
function isEqual(a: Parts, b: Parts): boolean {
  if (a.power !== b.power) return false;
  let offset = b.start;
  for (let index = a.start; index < a.end; index++) {
    if (a.text.charCodeAt(index) === point) continue;
    if (b.text.charCodeAt(offset) === point) offset++;
    if (offset >= b.end || a.text.charCodeAt(index) !== b.text.charCodeAt(offset)) return false;
    offset++;
  }
  return offset === b.end;
}

/** Finds, in one pass, the numbers that a double would change. Leaves invalid JSON to JSON.parse. */
function inexactNumbers(text: string, maxValues: number, depthLimit: number): Span[] {
  const spans: Span[] = [];
  let values = 1;
  let tokens = 0;
  let depth = 0;
  for (let offset = 0; offset < text.length; offset++) {
    const charCode = text.charCodeAt(offset);
    if (charCode === quote) {
      offset = endOfString(text, offset);
      tokens++;
    } else if (charCode === comma || charCode === openList || charCode === openObject) {
      values++;
      if (charCode !== comma && ++depth > depthLimit) throw new RangeError('is nested too deeply');
    } else if (charCode === closeList || charCode === closeObject) {
      depth--;
    } else if (charCode === minus || (charCode >= zero && charCode <= nine)) {
      numberPattern.lastIndex = offset;
      if (!numberPattern.test(text)) continue;
      const end = numberPattern.lastIndex;
      if (end - offset >= shortestRisky && isInexact(text.slice(offset, end)))
        spans.push({ start: offset, end });
      offset = end - 1;
      tokens++;
    }
    // In valid JSON, each value has at most one key, so there are at most two tokens per value.
    if (values > maxValues || tokens > 2 * maxValues) {
      throw new RangeError(`contains more than ${maxValues} values`);
    }
  }
  return spans;
}

/** Returns the position of a string's closing quote, or the text length if the quote is missing. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === backslash) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}

/** Returns the value with its placeholders replaced by these numbers. */
function restoreNumbers(root: unknown, numbers: readonly ExactNumber[]): unknown {
  const top = [root];
  const pending: (unknown[] | Record<string, unknown>)[] = [top];
  /** Returns the number for a placeholder, or any other value unchanged. Queues containers for processing. */
  const replace = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    // JSON.parse creates every key as an own property, even `__proto__`.
    if (Object.hasOwn(value, marker)) return numbers[Number(Reflect.get(value, marker))];
    pending.push(value as Record<string, unknown>);
    return value;
  };
  for (let container = pending.pop(); container !== undefined; container = pending.pop()) {
    if (Array.isArray(container)) {
      for (let index = 0; index < container.length; index++) container[index] = replace(container[index]);
    } else {
      for (const key of Object.keys(container)) {
        const value = container[key];
        const replacement = replace(value);
        // Assigns only replacements, because assigning to `__proto__` would set the prototype.
        if (replacement !== value) container[key] = replacement;
      }
    }
  }
  return top[0];
}
