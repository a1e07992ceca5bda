import { errors, HttpError } from '../errors.ts';
import { ExactNumber } from '../fields/index.ts';
import type { Body } from './body.ts';
import { readJson } from './read-body.ts';
import { createYield } from './yield.ts';

/** A record among many in a body: what it says, or what is wrong with it. */
export interface ParsedLine {
  /** Where it begins in the body; the first line is 1. */
  readonly number: number;
  /** Its bytes, roughly. */
  readonly size: number;
  readonly record: Body | HttpError;
}

/** The records of a body in their order, some at a time. */
export interface LineReader extends AsyncIterable<readonly ParsedLine[]> {
  /** The names of columns that are no writable field; complete once the first record is read. */
  readonly ignored: readonly string[];
}

/** Bytes of one record at most. */
export const maxRecord = 1024 * 1024;

/** Number of lines, including empty ones, read without a pause: creating their errors takes tens of microseconds each. */
const sliceLines = 200;

/** JSON objects, one on each line; empty lines are skipped. @param current gives their fields the names of now */
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
  /** The beginning of a line whose end is not there yet; nothing of it is kept once it is too long. */
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
    const isMarked = number === 1 && line.subarray(0, byteOrderMark.length).equals(byteOrderMark);
    const bytes = isMarked ? line.subarray(byteOrderMark.length) : line;
    if (isBlank(bytes)) return undefined;
    const record = objectOf(bytes);
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

/** Whether there is nothing but whitespace of JSON. */
function isBlank(bytes: Buffer): boolean {
  for (const byte of bytes) {
    if (byte !== carriageReturn && byte !== space && byte !== tab) return false;
  }
  return true;
}

function objectOf(bytes: Buffer): Body | HttpError {
  try {
    const value = readJson(bytes);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject && !(value instanceof ExactNumber)
      ? (value as Body)
      : errors.invalidJson('each line must be an object');
  } catch (cause) {
    if (cause instanceof HttpError) return cause;
    throw cause;
  }
}
