import type { Encoder } from './encode.ts';
import type { CsvFormat } from './type.ts';

const ascii = (text: string): number => text.charCodeAt(0);
const [comma, quote, carriageReturn, lineFeed] = [ascii(','), ascii('"'), ascii('\r'), ascii('\n')];

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

/** Returns the CSV format of values that are never empty texts, so that an empty cell means no value. */
export const valueCells = (encode: Encoder, parse: (text: string) => unknown): CsvFormat => ({
  encode,
  parse: (cell) => (cell === undefined || cell === '' ? undefined : parse(cell)),
});

/** The CSV format of values whose JSON is a string, for example dates. */
export const stringCells: CsvFormat = valueCells(textCell, (text) => text);
