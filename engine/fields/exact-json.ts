import { randomBytes } from 'node:crypto';
import { ExactNumber } from './exact.ts';

/** The maximum nesting of a text, and the usual maximum number of its values: parsing takes a few milliseconds. */
const [maxDepth, usualValues] = [200, 40_000];

/**
 * JSON.parse that keeps every number exact: those a double would change become {@link ExactNumber}. Linear, a few
 * milliseconds for any text of a megabyte.
 * @param maxValues how many values it may have
 * @throws SyntaxError for invalid JSON; RangeError, whose message completes "it …", past these limits
 */
export function parseExactJson(text: string, maxValues = usualValues): unknown {
  const numbers = inexactNumbers(text, maxValues);
  if (numbers.length === 0) return JSON.parse(text);
  let markedText = '';
  let copiedEnd = 0;
  for (const { start, end } of numbers) {
    // An object, because a string could be a key (before a colon), which a number never is.
    markedText += `${text.slice(copiedEnd, start)}{"${marker}":"${text.slice(start, end)}"}`;
    copiedEnd = end;
  }
  return restoreNumbers(JSON.parse(markedText + text.slice(copiedEnd)));
}

/** A JSON number by its text, exact; undefined if the text is anything else. */
export function jsonNumber(text: string): number | ExactNumber | undefined {
  numberPattern.lastIndex = 0;
  if (numberPattern.exec(text)?.[0] !== text) return undefined;
  return isInexact(text) ? new ExactNumber(text) : Number(text);
}

/** The key of a number's placeholder during JSON.parse. A reviver would cost a microsecond for each value. */
const marker = randomBytes(16).toString('base64url');

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
// Long digit runs and three-digit exponents are all that a double can change.
const riskyPattern = /\d[\d.]{15}|[eE][+-]?\d{3}/;
const shortestRisky = '1e100'.length;

/**
 * Whether a double would change the value of a JSON number. How it is written does not count: what is stored must not
 * depend on whether 10e-001, 1.0 or 1.00000000000000000 was sent, for the database keeps the zeros of a fraction.
 */
function isInexact(source: string): boolean {
  if (!riskyPattern.test(source)) return false;
  const doubleText = String(Number(source));
  return doubleText !== source && !isEqual(partsOf(doubleText), partsOf(source));
}

/** Where the significant digits of a number stand in its text, and the power of ten of the first; no digits: zero. */
interface Parts {
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly power: number;
}

/** Reads a number's text once, without copying it: a body may hold a hundred thousand of them. */
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

/** Finds the numbers that a double would change, in one pass. JSON.parse reports invalid JSON. */
function inexactNumbers(text: string, maxValues: number): Span[] {
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
      if (charCode !== comma && ++depth > maxDepth) throw new RangeError('is nested too deeply');
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
    // Each value has at most a key: a text with more tokens is not JSON.
    if (values > maxValues || tokens > 2 * maxValues) {
      throw new RangeError(`holds more than ${maxValues} values`);
    }
  }
  return spans;
}

/** The end of the string that begins at a quote, or of the text if the string is not closed. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === backslash) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return text.length;
}

/** The value with its placeholders replaced by numbers. */
function restoreNumbers(root: unknown): unknown {
  const top = [root];
  const pending: (unknown[] | Record<string, unknown>)[] = [top];
  /** What stands in place of a value; other objects are looked into later. */
  const replace = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    // Every key of the text, even `__proto__`, is an own property: this changes no prototype.
    if (Object.hasOwn(value, marker)) return new ExactNumber(String(Reflect.get(value, marker)));
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
        // `__proto__` as it is stays as it is.
        if (replacement !== value) container[key] = replacement;
      }
    }
  }
  return top[0];
}
