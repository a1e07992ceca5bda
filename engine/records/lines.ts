import { errors, HttpError } from '../errors.ts';
import { ExactNumber } from '../fields/index.ts';
import type { Body } from './body.ts';
import { readJson } from './read-body.ts';

/** A record among many in a body: what it says, or what is wrong with it. */
export interface Line {
  /** Where it begins in the body; the first line is 1. */
  readonly number: number;
  /** Its bytes, roughly. */
  readonly size: number;
  readonly record: Body | HttpError;
}

/** The records of a body, one after the other. */
export interface Lines extends AsyncIterable<Line> {
  /** The names of columns that are no writable field; complete once the first record is read. */
  readonly ignored: readonly string[];
}

/** Bytes of one record at most. */
export const maxRecord = 1024 * 1024;
const newline = 0x0a;
const byteOrderMark = Buffer.from('\ufeff');

/** JSON objects, one on each line; empty lines are skipped. */
export const ndjsonLines = (source: AsyncIterable<Buffer>): Lines =>
  Object.assign(jsonRecords(source), { ignored: [] });

async function* jsonRecords(source: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let number = 0;
  for await (const line of splitLines(source)) {
    number++;
    const record = line === tooLong ? errors.lineTooLong(maxRecord) : readObject(line, number);
    if (record !== undefined) yield { number, size: line.length, record };
  }
}

/** Stands for a line with more than {@link maxRecord} bytes. */
const tooLong = Buffer.alloc(0);

/** The lines of a text without their ends; no more than the bytes of one record are kept. */
async function* splitLines(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let pending: Buffer[] = [];
  let size = 0;
  const end = (last: Buffer) => {
    const line = size + last.length > maxRecord ? tooLong : Buffer.concat([...pending, last]);
    pending = [];
    size = 0;
    return line;
  };
  for await (const chunk of source) {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      yield end(chunk.subarray(start, at));
      start = at + 1;
    }
    const rest = chunk.subarray(start);
    size += rest.length;
    if (size <= maxRecord) pending.push(rest);
    else pending = [];
  }
  if (size > 0) yield end(tooLong);
}

function readObject(line: Buffer, number: number): Body | HttpError | undefined {
  const hasMark = number === 1 && line.subarray(0, byteOrderMark.length).equals(byteOrderMark);
  const bytes = hasMark ? line.subarray(byteOrderMark.length) : line;
  // A carriage return and spaces are whitespace of JSON.
  if (bytes.every((byte) => byte === 0x0d || byte === 0x20 || byte === 0x09)) return undefined;
  try {
    const value = readJson(bytes);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject && !(value instanceof ExactNumber)
      ? (value as Body)
      : errors.invalidJson('a line must be an object');
  } catch (cause) {
    if (cause instanceof HttpError) return cause;
    throw cause;
  }
}
