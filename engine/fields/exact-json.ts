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
  let marked = '';
  let done = 0;
  for (const { start, end } of numbers) {
    // An object, because a string could be a key (before a colon), which a number never is.
    marked += `${text.slice(done, start)}{"${marker}":"${text.slice(start, end)}"}`;
    done = end;
  }
  return restored(JSON.parse(marked + text.slice(done)));
}

/** A JSON number by its text, exact; undefined if the text is anything else. */
export function jsonNumber(text: string): number | ExactNumber | undefined {
  number.lastIndex = 0;
  if (number.exec(text)?.[0] !== text) return undefined;
  return isInexact(text) ? new ExactNumber(text) : Number(text);
}

/** The key of a number's placeholder during JSON.parse. A reviver would cost a microsecond for each value. */
const marker = randomBytes(16).toString('base64url');

interface Span {
  readonly start: number;
  readonly end: number;
}

const code = (character: string): number => character.charCodeAt(0);
const [quote, backslash, comma, minus] = [code('"'), code('\\'), code(','), code('-')];
const [zero, nine, point] = [code('0'), code('9'), code('.')];
const [smallE, largeE] = [code('e'), code('E')];
const [openList, closeList, openObject, closeObject] = [code('['), code(']'), code('{'), code('}')];

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// Long digit runs and three-digit exponents are all that a double can change.
const risky = /\d[\d.]{15}|[eE][+-]?\d{3}/;
const shortestRisky = '1e100'.length;

/**
 * Whether a double would change the value of a JSON number. How it is written does not count: what is stored must not
 * depend on whether 10e-001, 1.0 or 1.00000000000000000 was sent, for the database keeps the zeros of a fraction.
 */
function isInexact(source: string): boolean {
  if (!risky.test(source)) return false;
  const held = String(Number(source));
  return held !== source && !isSame(partsOf(held), partsOf(source));
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
  let [start, end, whole, exponent] = [-1, 0, -1, text.length];
  for (let at = 0; at < text.length; at++) {
    const here = text.charCodeAt(at);
    if (here === point) whole = at;
    else if (here === smallE || here === largeE) {
      exponent = at;
      break;
    } else if (here > zero && here <= nine) {
      if (start === -1) start = at;
      end = at + 1;
    }
  }
  if (start === -1) return { text, start: 0, end: 0, power: 0 };
  if (whole === -1) whole = exponent;
  const places = start < whole ? whole - start : whole - start + 1;
  const power = exponent === text.length ? 0 : Number(text.slice(exponent + 1));
  return { text, start, end, power: places + power };
}

function isSame(one: Parts, other: Parts): boolean {
  if (one.power !== other.power) return false;
  let at = other.start;
  for (let index = one.start; index < one.end; index++) {
    if (one.text.charCodeAt(index) === point) continue;
    if (other.text.charCodeAt(at) === point) at++;
    if (at >= other.end || one.text.charCodeAt(index) !== other.text.charCodeAt(at)) return false;
    at++;
  }
  return at === other.end;
}

/** Finds the numbers that a double would change, in one pass. JSON.parse reports invalid JSON. */
function inexactNumbers(text: string, maxValues: number): Span[] {
  const found: Span[] = [];
  let values = 1;
  let tokens = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const here = text.charCodeAt(at);
    if (here === quote) {
      at = endOfString(text, at);
      tokens++;
    } else if (here === comma || here === openList || here === openObject) {
      values++;
      if (here !== comma && ++depth > maxDepth) throw new RangeError('is nested too deeply');
    } else if (here === closeList || here === closeObject) {
      depth--;
    } else if (here === minus || (here >= zero && here <= nine)) {
      number.lastIndex = at;
      if (!number.test(text)) continue;
      const end = number.lastIndex;
      if (end - at >= shortestRisky && isInexact(text.slice(at, end))) found.push({ start: at, end });
      at = end - 1;
      tokens++;
    }
    // Each value has at most a key: a text with more tokens is not JSON.
    if (values > maxValues || tokens > 2 * maxValues) {
      throw new RangeError(`contains more than ${maxValues} values`);
    }
  }
  return found;
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
function restored(root: unknown): unknown {
  const top = [root];
  const left: (unknown[] | Record<string, unknown>)[] = [top];
  /** What stands in place of a value; other objects are looked into later. */
  const inPlaceOf = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    // Every key of the text, even `__proto__`, is an own property: this changes no prototype.
    if (Object.hasOwn(value, marker)) return new ExactNumber(String(Reflect.get(value, marker)));
    left.push(value as Record<string, unknown>);
    return value;
  };
  for (let holder = left.pop(); holder !== undefined; holder = left.pop()) {
    if (Array.isArray(holder)) {
      for (let index = 0; index < holder.length; index++) holder[index] = inPlaceOf(holder[index]);
    } else {
      for (const key of Object.keys(holder)) {
        const value = holder[key];
        const now = inPlaceOf(value);
        // `__proto__` as it is stays as it is.
        if (now !== value) holder[key] = now;
      }
    }
  }
  return top[0];
}
