import { type Encoder, maxJsonBytesPerByte } from '../fields/index.ts';
import { type OutputField, type RowWriter, valuesSize } from './output.ts';

const ascii = (text: string): number => text.charCodeAt(0);
const [comma, quote, carriageReturn, lineFeed] = [ascii(','), ascii('"'), ascii('\r'), ascii('\n')];

/** Number of additional bytes per field: a comma and two quotes. */
const delimiterBytes = 3;

/**
 * Compiles a writer of CSV records (RFC 4180) without line endings. Null becomes an empty cell, and an empty
 * string becomes `""`. Numbers and booleans are written as in JSON.
 */
export function csvWriter(fields: readonly OutputField[]): RowWriter {
  const encoders = fields.map(({ type }) => (type.json.type === 'string' ? cell : type.encode));
  return (row, start, output) => {
    output.reserve(
      valuesSize(row, start, encoders.length) * maxJsonBytesPerByte + encoders.length * delimiterBytes,
    );
    const target = output.bytes;
    let next = output.length;
    let offset = start;
    for (let index = 0; index < encoders.length; index++) {
      if (index > 0) target[next++] = comma;
      const length = row.readInt32BE(offset);
      offset += 4;
      if (length === -1) continue;
      next = (encoders[index] as Encoder)(row, offset, offset + length, target, next);
      offset += length;
    }
    output.length = next;
    return offset;
  };
}

/** Encodes text as a cell. Adds quotes if the text is empty or contains a comma, a quote or a line break. */
const cell: Encoder = (source, start, end, target, offset) => {
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
