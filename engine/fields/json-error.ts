// Finds the position of a syntax error. V8's messages often omit the position, and quote text that can
// contain personal data. The functions read bytes, because reading the characters of a string can take four
// times as long.

const code = (character: string): number => character.charCodeAt(0);
const [quote, backslash, colon, comma] = [code('"'), code('\\'), code(':'), code(',')];
const [openList, closeList, openObject, closeObject] = [code('['), code(']'), code('{'), code('}')];
const [minus, plus, point, zero, nine] = [code('-'), code('+'), code('.'), code('0'), code('9')];
const [smallE, smallU, space, newline] = [code('e'), code('u'), code(' '), code('\n')];
const [tab, carriageReturn] = [code('\t'), code('\r')];
const escapes = new Set([...'"\\/bfnrtu'].map(code));
const words = new Map(['true', 'false', 'null'].map((word) => [code(word), word]));
/** Bit that converts an ASCII letter to lowercase. */
const lowerCase = 0x20;

/** Returns the byte at an offset, or -1 past the end. */
const byteAt = (json: Uint8Array, at: number): number => json[at] ?? -1;
const isDigit = (here: number): boolean => here >= zero && here <= nine;
const isHexDigit = (here: number): boolean =>
  isDigit(here) || ((here | lowerCase) >= code('a') && (here | lowerCase) <= code('f'));

// Tokens that the parser can expect next, as numbers because comparing strings takes twice as long.
const [value, firstValue, key, firstKey, colonAfterKey, end] = [0, 1, 2, 3, 4, 5];

/**
 * Returns the offset of the first byte that makes the UTF-8 text invalid, whatever follows. Returns the
 * length of the text if it is incomplete, or undefined if it is valid. Runs in linear time and without
 * recursion.
 */
export function jsonErrorOffset(json: Uint8Array): number | undefined {
  /** The closing bracket of each open container, indexed by the container's depth, starting at 1. */
  let closers = new Uint8Array(256);
  let depth = 0;
  let expected = value;
  let at = 0;
  while (true) {
    at = endOfBlanks(json, at);
    if (at === json.length) return expected === end && depth === 0 ? undefined : at;
    const here = byteAt(json, at);
    const canClose = depth > 0 && (expected === end || expected === firstValue || expected === firstKey);
    if (canClose && here === closers[depth]) {
      depth--;
      expected = end;
      at++;
    } else if (expected === end) {
      if (here !== comma || depth === 0) return at;
      expected = closers[depth] === closeObject ? key : value;
      at++;
    } else if (expected === colonAfterKey) {
      if (here !== colon) return at;
      expected = value;
      at++;
    } else if (expected === key || expected === firstKey) {
      if (here !== quote) return at;
      at = endOfString(json, at);
      if (at < 0) return ~at;
      expected = colonAfterKey;
    } else if (here === openList || here === openObject) {
      depth++;
      if (depth === closers.length) closers = doubled(closers);
      closers[depth] = here === openList ? closeList : closeObject;
      expected = here === openList ? firstValue : firstKey;
      at++;
    } else {
      at = endOfScalar(json, at);
      if (at < 0) return ~at;
      expected = end;
    }
  }
}

function doubled(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(2 * bytes.length);
  copy.set(bytes);
  return copy;
}

function endOfBlanks(json: Uint8Array, start: number): number {
  for (let at = start; at < json.length; at++) {
    const here = byteAt(json, at);
    if (here !== space && here !== newline && here !== tab && here !== carriageReturn) return at;
  }
  return json.length;
}

/** Returns the end offset of the scalar at `start`, or the complement (`~`) of an error offset. */
function endOfScalar(json: Uint8Array, start: number): number {
  const here = byteAt(json, start);
  if (here === quote) return endOfString(json, start);
  if (here === minus || isDigit(here)) return endOfNumber(json, start);
  const word = words.get(here);
  if (word === undefined) return ~start;
  for (let index = 1; index < word.length; index++) {
    if (byteAt(json, start + index) !== word.charCodeAt(index)) return ~(start + index);
  }
  return start + word.length;
}

/** Does the same as {@link endOfScalar} for a string. */
function endOfString(json: Uint8Array, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    const here = byteAt(json, at);
    if (here === quote) return at + 1;
    if (here < space) return ~at;
    if (here !== backslash) continue;
    at++;
    if (!escapes.has(byteAt(json, at))) return ~at;
    if (byteAt(json, at) !== smallU) continue;
    for (let digits = 0; digits < 4; digits++) {
      at++;
      if (!isHexDigit(byteAt(json, at))) return ~at;
    }
  }
  return ~json.length;
}

/** Does the same as {@link endOfScalar} for a number. */
function endOfNumber(json: Uint8Array, start: number): number {
  let at = byteAt(json, start) === minus ? start + 1 : start;
  at = byteAt(json, at) === zero ? at + 1 : endOfDigits(json, at);
  if (at >= 0 && byteAt(json, at) === point) at = endOfDigits(json, at + 1);
  if (at >= 0 && (byteAt(json, at) | lowerCase) === smallE) {
    const sign = byteAt(json, at + 1);
    at = endOfDigits(json, sign === plus || sign === minus ? at + 2 : at + 1);
  }
  return at;
}

/** Does the same as {@link endOfScalar} for one or more digits. */
function endOfDigits(json: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(byteAt(json, at))) at++;
  return at === start ? ~start : at;
}

/** Returns the line and column of an offset. Both start at 1. Columns count UTF-16 code units, as editors do. */
export function positionAt(
  json: Uint8Array,
  offset: number,
): { readonly line: number; readonly column: number } {
  let line = 1;
  let start = 0;
  for (let at = 0; at < offset; at++) {
    if (json[at] !== newline) continue;
    line++;
    start = at + 1;
  }
  const before = new TextDecoder('utf-8', { ignoreBOM: true }).decode(json.subarray(start, offset));
  return { line, column: before.length + 1 };
}
