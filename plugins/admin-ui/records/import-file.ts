import { isUtf8 } from 'node:buffer';
import { previewCsv } from '../../../engine/records/index.ts';

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

function encodingOf(content: Buffer): 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252' {
  const mark = content.subarray(0, 2).toString('hex');
  if (mark === 'fffe') return 'utf-16le';
  if (mark === 'feff') return 'utf-16be';
  return isUtf8(content) ? 'utf-8' : 'windows-1252';
}
