import { errors, HttpError } from '../errors.ts';
import { ExactNumber } from '../fields/index.ts';
import type { Body } from './body.ts';
import { readJson } from './read-body.ts';
import { createYield } from './yield.ts';

/** One record of an import's body, or the reason why it is invalid. */
export interface ParsedLine {
  /** The line where the record starts. The first line is 1. */
  readonly number: number;
  /** Approximate size in bytes. */
  readonly size: number;
  readonly record: Body | HttpError;
}

/** Iterates over the records of a body in order, in chunks. */
export interface LineReader extends AsyncIterable<readonly ParsedLine[]> {
  /** Names of columns that are not writable fields; complete once the first record has been read. */
  readonly ignored: readonly string[];
}

/** Maximum size of a record, in bytes. */
export const maxRecord = 1024 * 1024;

/**
 * Number of lines read without a pause. Creating the error for an invalid line takes tens of microseconds.
 */
const sliceLines = 200;

/**
 * Parses JSON objects, one per line. Empty lines are skipped. @param current translates former field names
 */
export const ndjsonLines = (
  source: AsyncIterable<Buffer>,
  current = (record: Body): Body => record,
): LineReader => Object.assign(jsonRecords(source, current), { ignored: [] });

const [newline, carriageReturn, space, tab] = [0x0a, 0x0d, 0x20, 0x09];
const byteOrderMark = Buffer.from('\ufeff');

async function* jsonRecords(
  source: AsyncIterable<Buffer>,
  current: (record: Body) => Body,
): AsyncGenerator<readonly ParsedLine[]> {
  /** The start of an incomplete line, empty if the line is already too long. */
  let pending: Buffer[] = [];
  let pendingSize = 0;
  let number = 0;
  const pause = createYield();
  const lineOf = (last: Buffer): ParsedLine | undefined => {
    number++;
    const size = pendingSize + last.length;
    const line = pendingSize === 0 || size > maxRecord ? last : Buffer.concat([...pending, last]);
    pending = [];
    pendingSize = 0;
    if (size > maxRecord) return { number, size: 0, record: errors.lineTooLong(maxRecord) };
    const hasByteOrderMark = number === 1 && line.subarray(0, byteOrderMark.length).equals(byteOrderMark);
    const bytes = hasByteOrderMark ? line.subarray(byteOrderMark.length) : line;
    if (isBlank(bytes)) return undefined;
    const record = objectOf(bytes, number);
    return { number, size, record: record instanceof HttpError ? record : current(record) };
  };
  for await (const chunk of source) {
    let lines: ParsedLine[] = [];
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      const line = lineOf(chunk.subarray(start, at));
      if (line !== undefined) lines.push(line);
      start = at + 1;
      if (number % sliceLines === 0) {
        yield lines;
        lines = [];
        await pause();
      }
    }
    const rest = chunk.subarray(start);
    pendingSize += rest.length;
    if (pendingSize > maxRecord) pending = [];
    else if (rest.length > 0) pending.push(rest);
    yield lines;
  }
  const last = lineOf(Buffer.alloc(0));
  if (last !== undefined) yield [last];
}

/** Returns whether the text consists of JSON whitespace only. */
function isBlank(bytes: Buffer): boolean {
  for (const byte of bytes) {
    if (byte !== carriageReturn && byte !== space && byte !== tab) return false;
  }
  return true;
}

function objectOf(bytes: Buffer, line: number): Body | HttpError {
  try {
    const value = readJson(bytes, { line });
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject && !(value instanceof ExactNumber)
      ? (value as Body)
      : errors.invalidJson('each line must be an object');
  } catch (cause) {
    if (cause instanceof HttpError) return cause;
    throw cause;
  }
}
