import { isUtf8 } from 'node:buffer';
import { previewCsv } from '../../../engine/records/index.ts';
import { CsvPosition } from './csv-position.ts';

/** Maximum size of an uploaded file, in bytes. */
export const maxFile = 5 * 1024 * 1024;

/** A file to import, with what its first lines contain. */
export interface ImportFile {
  /** The CSV text in UTF-8. */
  readonly bytes: Buffer;
  readonly preview: NonNullable<ReturnType<typeof previewCsv>>;
}

/** Number of records shown as examples. */
const previewRecords = 3;

/**
 * Decodes a file: UTF-8, UTF-16 with a byte order mark, which spreadsheets save as "Unicode text", or otherwise Windows-1252.
 * Returns undefined if the start of the file is not CSV.
 */
export function readImportFile(content: Buffer): ImportFile | undefined {
  const encoding = encodingOf(content);
  const bytes = encoding === 'utf-8' ? content : Buffer.from(new TextDecoder(encoding).decode(content));
  const preview = previewCsv(bytes, previewRecords);
  return preview && { bytes, preview };
}

/** Number of bytes processed at a time when reading a file. */
const sliceBytes = 64 * 1024;

/** Yields a file's bytes in slices, on demand. */
export function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += sliceBytes)
    yield bytes.subarray(offset, offset + sliceBytes);
}

/**
 * Returns the number of records in a CSV file. Line breaks in quoted cells and empty lines do not count, nor does the header.
 * @param delimiter the character between cells
 */
export function countRecords(bytes: Buffer, delimiter: string): number {
  const position = new CsvPosition(delimiter);
  let count = 0;
  let isEmpty = true;
  // Using an index is several times faster than iterating over the bytes.
  for (let index = 0; index < bytes.length; index++) {
    if (position.read(bytes[index] as number) !== 'lineEnd') isEmpty = false;
    else if (!isEmpty) {
      count++;
      isEmpty = true;
    }
  }
  return Math.max(0, count + (isEmpty ? 0 : 1) - 1);
}

function encodingOf(content: Buffer): 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252' {
  const mark = content.subarray(0, 2).toString('hex');
  if (mark === 'fffe') return 'utf-16le';
  if (mark === 'feff') return 'utf-16be';
  return isUtf8(content) ? 'utf-8' : 'windows-1252';
}
