/**
 * Writes a value as JSON.
 * @param from holds the value as PostgreSQL's text, UTF-8, from `start` to `end`
 * @param to has room for {@link maxJsonBytesPerByte} bytes for each byte of the value, and for two more
 * @param at where to write
 * @returns the end of what was written
 */
export type Encoder = (
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  offset: number,
) => number;

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
export const verbatim: Encoder = (source, start, end, target, offset) => {
  let next = offset;
  for (let index = start; index < end; index++) target[next++] = source[index] as number;
  return next;
};

/** Decimals: `NaN` and the infinities, which only SQL by hand can have stored, as strings. */
export const decimal: Encoder = (source, start, end, target, offset) => {
  const firstDigit = source[start] === minus ? start + 1 : start;
  const isNumber = (source[firstDigit] as number) <= nine;
  return isNumber
    ? verbatim(source, start, end, target, offset)
    : jsonString(source, start, end, target, offset);
};

/** `t` and `f`. */
export const jsonBoolean: Encoder = (source, start, _end, target, offset) => {
  const text = source[start] === ascii('t') ? 'true' : 'false';
  for (let index = 0; index < text.length; index++) target[offset + index] = text.charCodeAt(index);
  return offset + text.length;
};

/** A JSON string; escapes what `row_to_json` escapes, in the same way. */
export const jsonString: Encoder = (source, start, end, target, offset) => {
  let next = offset;
  target[next++] = quote;
  for (let index = start; index < end; index++) {
    const byte = source[index] as number;
    const letter = escapes[byte] as number;
    if (letter === 0) {
      target[next++] = byte;
      continue;
    }
    target[next++] = backslash;
    target[next++] = letter;
    if (letter !== ascii('u')) continue;
    target[next++] = zero;
    target[next++] = zero;
    target[next++] = hexadecimal[byte >> 4] as number;
    target[next++] = hexadecimal[byte & 15] as number;
  }
  target[next++] = quote;
  return next;
};
