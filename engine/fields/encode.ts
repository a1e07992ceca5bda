/**
 * Writes a value as JSON.
 * @param from holds the value as PostgreSQL's text, UTF-8, from `start` to `end`
 * @param to has room for {@link maxJsonBytesPerByte} bytes for each byte of the value, and for two more
 * @param at where to write
 * @returns the end of what was written
 */
export type Encoder = (from: Uint8Array, start: number, end: number, to: Uint8Array, at: number) => number;

/** Bytes of JSON for one byte of a value, at most: `\u001f`. */
export const maxJsonBytesPerByte = 6;

const ascii = (text: string): number => text.charCodeAt(0);
const [quote, backslash, minus] = [ascii('"'), ascii('\\'), ascii('-')];
const [zero, nine] = [ascii('0'), ascii('9')];
const hexadecimal = Buffer.from('0123456789abcdef');

/** The character after the backslash for each byte that has to be escaped; 0 for all others. */
const escapes = new Uint8Array(256);
escapes.fill(ascii('u'), 0, 0x20);
for (const [byte, letter] of [
  ['\b', 'b'],
  ['\t', 't'],
  ['\n', 'n'],
  ['\f', 'f'],
  ['\r', 'r'],
  ['"', '"'],
  ['\\', '\\'],
] as const) {
  escapes[ascii(byte)] = ascii(letter);
}

/** Numbers and everything else whose text is JSON already. */
export const verbatim: Encoder = (from, start, end, to, at) => {
  let next = at;
  for (let index = start; index < end; index++) to[next++] = from[index] as number;
  return next;
};

/** Decimals: `NaN` and the infinities, which only SQL by hand can have stored, as strings. */
export const decimal: Encoder = (from, start, end, to, at) => {
  const first = from[start] === minus ? start + 1 : start;
  const isNumber = (from[first] as number) <= nine;
  return isNumber ? verbatim(from, start, end, to, at) : jsonString(from, start, end, to, at);
};

/** `t` and `f`. */
export const jsonBoolean: Encoder = (from, start, _end, to, at) => {
  const text = from[start] === ascii('t') ? 'true' : 'false';
  for (let index = 0; index < text.length; index++) to[at + index] = text.charCodeAt(index);
  return at + text.length;
};

/** A JSON string; escapes what `row_to_json` escapes, in the same way. */
export const jsonString: Encoder = (from, start, end, to, at) => {
  let next = at;
  to[next++] = quote;
  for (let index = start; index < end; index++) {
    const byte = from[index] as number;
    const letter = escapes[byte] as number;
    if (letter === 0) {
      to[next++] = byte;
      continue;
    }
    to[next++] = backslash;
    to[next++] = letter;
    if (letter !== ascii('u')) continue;
    to[next++] = zero;
    to[next++] = zero;
    to[next++] = hexadecimal[byte >> 4] as number;
    to[next++] = hexadecimal[byte & 15] as number;
  }
  to[next++] = quote;
  return next;
};
