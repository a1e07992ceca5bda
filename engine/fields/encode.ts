/**
 * Writes a value as JSON.
 * @param source bytes that contain the value from `start` to `end`, as UTF-8 in PostgreSQL's text format
 * @param target output buffer, with {@link maxJsonBytesPerByte} bytes per byte of the value, plus two
 * @param offset position in `target` of the first byte to write
 * @returns the position after the last byte written
 */
export type Encoder = (
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  offset: number,
) => number;

/** Maximum number of JSON bytes per byte of a value. Escapes such as `\u001f` require this many. */
export const maxJsonBytesPerByte = 6;

const ascii = (text: string): number => text.charCodeAt(0);
const [quote, backslash, minus] = [ascii('"'), ascii('\\'), ascii('-')];
const [zero, nine] = [ascii('0'), ascii('9')];
const hexadecimal = Buffer.from('0123456789abcdef');

/** For each byte that must be escaped, the character that follows the backslash. 0 for all other bytes. */
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

/** Encodes values whose text is already JSON, for example integers. */
export const verbatim: Encoder = (source, start, end, target, offset) => {
  let next = offset;
  for (let index = start; index < end; index++) target[next++] = source[index] as number;
  return next;
};

/** Encodes decimals. `NaN` and infinities, which can only be stored by manual SQL, are encoded as strings. */
export const decimal: Encoder = (source, start, end, target, offset) => {
  const firstDigit = source[start] === minus ? start + 1 : start;
  const isNumber = (source[firstDigit] as number) <= nine;
  return isNumber
    ? verbatim(source, start, end, target, offset)
    : jsonString(source, start, end, target, offset);
};

/** Encodes `t` and `f` as booleans. */
export const jsonBoolean: Encoder = (source, start, _end, target, offset) => {
  const text = source[start] === ascii('t') ? 'true' : 'false';
  for (let index = 0; index < text.length; index++) target[offset + index] = text.charCodeAt(index);
  return offset + text.length;
};

/** Encodes text as a JSON string, with the same escapes as `row_to_json`. */
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

const [comma, carriageReturn, lineFeed] = [ascii(','), ascii('\r'), ascii('\n')];

/** Encodes text as a cell. Adds quotes if the text is empty or contains a comma, quote or line break. */
export const textCell: Encoder = (source, start, end, target, offset) => {
  let next = offset;
  let isPlain = end > start;
  for (let index = start; index < end && isPlain; index++) {
    const byte = source[index] as number;
    isPlain = byte !== comma && byte !== quote && byte !== carriageReturn && byte !== lineFeed;
    target[next++] = byte;
  }
  if (isPlain) return next;
  next = offset;
  target[next++] = quote;
  for (let index = start; index < end; index++) {
    const byte = source[index] as number;
    if (byte === quote) target[next++] = quote;
    target[next++] = byte;
  }
  target[next++] = quote;
  return next;
};

/** How a type's values are written to and read from CSV. */
export interface CsvFormat {
  /** Encodes a non-null value selected by `read` as a cell. */
  readonly encode: Encoder;
  /** Number of cells that `encode` writes, separated by commas; 1 by default. */
  readonly cells?: number;
  /**
   * Converts a cell to a JSON value. Empty unquoted cells are passed as undefined. Returns undefined if the
   * value is absent, or the original text if it cannot be converted, so that validation rejects it.
   */
  readonly parse: (cell: string | undefined) => unknown;
}

/** Returns a CSV format for values that are never empty strings, so that an empty cell means absent. */
export const valueCells = (encode: Encoder, parse: (text: string) => unknown): CsvFormat => ({
  encode,
  parse: (cell) => (cell === undefined || cell === '' ? undefined : parse(cell)),
});

/** The CSV format for values represented by JSON strings, for example dates. */
export const stringCells: CsvFormat = valueCells(textCell, (text) => text);
