import { type Encoder, maxJsonBytesPerByte } from '../fields/index.ts';
import { type OutputField, type RowWriter, valuesSize } from './output.ts';

const comma = ','.charCodeAt(0);

/** Number of additional bytes per field: a comma and two quotes. */
const delimiterBytes = 3;

/**
 * Compiles a writer of CSV records (RFC 4180) without line endings. Null becomes an empty cell and an empty string
 * becomes `""`. Numbers and booleans are written as in JSON.
 */
export function csvWriter(fields: readonly OutputField[]): RowWriter {
  const encoders = fields.map(({ type }) => type.csv.encode);
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
