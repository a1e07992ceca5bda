import { type InfoField, type InfoRecord, parse } from 'csv-parse';
import { errors, excerpt, type FieldIssue, HttpError } from '../errors.ts';
import { customName, ExactNumber, type Field } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import type { Body } from './body.ts';
import { readJson } from './read-body.ts';
import { unknownField } from './unknown-names.ts';
import { createYield } from './yield.ts';

/** One record of an import's body, or the reason it is invalid. */
export interface ParsedLine {
  /** The line where the record starts. The first line is 1. */
  readonly number: number;
  /** Approximate size in bytes. */
  readonly size: number;
  readonly record: Body | HttpError;
}

/** Iterates over a body's records in order, in chunks. */
export interface LineReader extends AsyncIterable<readonly ParsedLine[]> {
  /** Names of columns that are not writable fields; complete once the first record has been read. */
  readonly ignored: readonly string[];
}

/** Maximum size of a record, in bytes. */
const maxRecord = 1024 * 1024;

/**
 * Number of lines read without a pause. Creating the error for an invalid line takes tens of microseconds.
 */
const sliceLines = 200;

/**
 * Parses JSON objects, one per line. Empty lines are skipped.
 * @param current translates former field names to current ones
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
  /** The start of an incomplete line; empty if the line is already too long. */
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

/** Returns whether a line contains only JSON whitespace. */
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

/** Maximum number of cells per line. PostgreSQL's limit on columns per table is lower. */
export const maxCells = 2000;
/**
 * Maximum size of the header, in bytes. The parser allocates hundreds of bytes per header byte until the
 * header ends.
 */
const maxHeader = 128 * 1024;
/**
 * Number of bytes parsed without a pause. Lines with too many cells are the slowest; 500 of them take 20 ms.
 */
const sliceBytes = 1024;

/** The text of a CSV cell; undefined if it is empty and not quoted. */
type Cell = string | undefined;

/** A column and the function that converts its cells to JSON values, or to undefined if a value is absent. */
interface Column {
  readonly name: string;
  /** The key of a custom field. */
  readonly key?: string | undefined;
  readonly value: (cell: Cell) => unknown;
}

/** The characters that can separate cells, by name. */
export const delimiters = { comma: ',', semicolon: ';', tab: '\t', pipe: '|' } as const;

/** Name of a character that separates cells. */
export type Delimiter = keyof typeof delimiters;

/** How to read CSV. */
export interface CsvOptions {
  /** The fields that columns can contain. */
  readonly fields: readonly Field[];
  /** Whether columns that do not contain a writable field are rejected. */
  readonly strict: boolean;
  /** Translates a former field name to the current name. */
  readonly current?: ((name: string) => string) | undefined;
  /** Default: `comma`. */
  readonly delimiter?: Delimiter | undefined;
  /** The fields that columns contain, by the columns' names. Empty for columns to ignore. Other columns are named like their fields. */
  readonly columns?: ReadonlyMap<string, string> | undefined;
}

/**
 * Reads records from CSV (RFC 4180) whose first line contains the names of the columns. Iteration fails with an HttpError
 * 400 if the text is not CSV, if a line exceeds {@link maxRecord} or {@link maxCells}, or if the header does
 * not contain any writable field, or contains one twice or, for strict callers, an unknown field.
 */
export function csvLines(source: AsyncIterable<Buffer>, options: CsvOptions): LineReader {
  const ignored: string[] = [];
  const { current = (name: string) => name } = options;
  // Exports contain a renamed field under both names. If the current name is present, the column with the
  // former name is ignored.
  const currentHeader = (header: readonly Cell[]) => {
    const names = new Set(header);
    return header.map((name = '') => (names.has(current(name)) ? name : current(name)));
  };
  const columnsFor = (header: readonly Cell[]) => columnsOf(currentHeader(header), options, ignored);
  return Object.assign(records(source, columnsFor, options.delimiter), { ignored });
}

/** Parses slice by slice, so that the lines before an error are yielded before the error is thrown. */
async function* records(
  source: AsyncIterable<Buffer>,
  columnsFor: (header: readonly Cell[]) => readonly (Column | undefined)[],
  delimiter: Delimiter = 'comma',
): AsyncGenerator<readonly ParsedLine[]> {
  let columns: readonly (Column | undefined)[] | undefined;
  let lines: ParsedLine[] = [];
  const parser = parse({
    bom: true,
    delimiter: delimiters[delimiter],
    cast: (text: string, { index, lines: line, quoting }: InfoField): Cell => {
      // `max_record_size` does not count separators.
      if (index >= maxCells) throw errors.invalidCsv(`line ${line}: more than ${maxCells} cells`);
      return text === '' && !quoting ? undefined : text;
    },
    max_record_size: maxRecord,
    on_record: (cells: readonly Cell[], { lines: end }: InfoRecord) => {
      if (columns === undefined) columns = columnsFor(cells);
      else lines.push({ ...measureRecord(cells, end), record: recordOf(columns, cells) });
      return null;
    },
    relax_column_count: true,
    skip_empty_lines: true,
  });
  // Errors are passed to the callbacks of `write` and `end`.
  parser.on('error', () => {});
  parser.resume();
  const parseStep = async function* (start: (done: (cause?: Error | null) => void) => void) {
    const cause = await new Promise<unknown>(start);
    yield lines;
    lines = [];
    if (cause) throw csvError(cause) ?? cause;
  };
  for await (const text of texts(source)) yield* parseStep((done) => parser.write(text, done));
  yield* parseStep((done) => parser.end(done));
  if (columns === undefined) throw errors.invalidCsv('the body is empty');
}

/**
 * Decodes text in slices that take a few milliseconds to parse.
 * @throws HttpError 400 if the text is not UTF-8
 */
async function* texts(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const decode = (bytes?: Buffer): string => {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      throw errors.invalidCsv('it is not UTF-8');
    }
  };
  const pause = createYield();
  const checkHeader = headerLimit();
  for await (const bytes of source) {
    for (let at = 0; at < bytes.length; at += sliceBytes) {
      await pause();
      const slice = bytes.subarray(at, at + sliceBytes);
      checkHeader(slice);
      yield decode(slice);
    }
  }
  yield decode();
}

/**
 * Returns a function that checks the text slice by slice. @throws HttpError 400 if the first line is longer
 * than {@link maxHeader}
 */
function headerLimit(): (slice: Buffer) => void {
  const [quote, lineFeed, carriageReturn] = [0x22, 0x0a, 0x0d];
  let isQuoted = false;
  let hasEnded = false;
  let size = 0;
  return (slice) => {
    if (hasEnded) return;
    for (const byte of slice) {
      if (byte === quote) isQuoted = !isQuoted;
      hasEnded = !isQuoted && (byte === lineFeed || byte === carriageReturn);
      if (hasEnded) return;
      if (++size > maxHeader) throw errors.invalidCsv(`the header is longer than ${maxHeader} bytes`);
    }
  };
}

/**
 * Error reasons by the parser's error code. The parser's own messages quote the input, which can contain
 * personal data.
 */
const reasons: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'text follows a closing quote',
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  CSV_MAX_RECORD_SIZE: `it is longer than ${maxRecord} bytes, or a quote is not closed`,
  INVALID_OPENING_QUOTE: 'a cell contains a quote but does not start with one',
};

function csvError(cause: unknown) {
  const { code = '', lines } = cause as { code?: string; lines?: number };
  const reason = reasons[code];
  return reason === undefined ? undefined : errors.invalidCsv(`line ${lines}: ${reason}`);
}

const [parameterStart, parameterEnd] = ['column[', ']'];

/** Returns the parameter with the field that a column contains: `column[NAME]`. */
const columnParameter = (column: string): string => `${parameterStart}${column}${parameterEnd}`;

/** Returns the column of a {@link columnParameter}, or undefined for other parameters. */
export const columnOfParameter = (name: string): string | undefined =>
  name.startsWith(parameterStart) && name.endsWith(parameterEnd)
    ? name.slice(parameterStart.length, -parameterEnd.length)
    : undefined;

/** Returns a header's columns. Ignored columns are undefined, and their names are added to `ignored`. */
function columnsOf(
  header: readonly Cell[],
  { fields, strict, columns: mapped }: CsvOptions,
  ignored: string[],
): readonly (Column | undefined)[] {
  const issues: FieldIssue[] = [];
  const unknownIssue = unknownField(fields.filter((field) => !field.readOnly).map((field) => field.name));
  const byName = new Map(fields.map((field) => [field.name, field]));
  const names = new Set<string>();
  const columnNames = new Set(header);
  for (const name of mapped?.keys() ?? [])
    if (!columnNames.has(name))
      issues.push(parameterIssue(columnParameter(name), 'is not a column of the file'));
  const columns = header.map((columnName = '', index) => {
    const name = mapped?.get(columnName) ?? columnName;
    if (name === '' && columnName !== '') {
      ignored.push(excerpt(columnName));
      return undefined;
    }
    const field = byName.get(name);
    if (names.has(name)) issues.push(parameterIssue(name, 'appears twice'));
    names.add(name);
    if (field !== undefined && !field.readOnly)
      return { name, key: field.custom?.key, value: field.type.csv.parse };
    ignored.push(excerpt(columnName));
    if (name !== columnName || strict)
      issues.push(field ? parameterIssue(name, 'is read-only') : unknownIssue(name, index));
    return undefined;
  });
  if (columns.every((column) => column === undefined))
    issues.push(
      parameterIssue('header', 'does not name a writable field', 'The first line must contain field names.'),
    );
  if (issues.length > 0) throw errors.invalidFields(issues);
  return columns;
}

function recordOf(columns: readonly (Column | undefined)[], cells: readonly Cell[]) {
  if (cells.length !== columns.length)
    return errors.invalidCsv(`the line has ${cells.length} cells, but the header has ${columns.length}`);
  const record: Record<string, unknown> = {};
  let custom: Record<string, unknown> | undefined;
  for (const [index, column] of columns.entries()) {
    const value = column?.value(cells[index]);
    if (column === undefined || value === undefined) continue;
    if (column.key === undefined) {
      record[column.name] = value;
      continue;
    }
    custom ??= {};
    custom[column.key] = value;
  }
  if (custom !== undefined) record[customName] = { ...(record[customName] as object | undefined), ...custom };
  return record satisfies Body;
}

/** Returns a record's first line number and size. @param end the record's last line number */
function measureRecord(cells: readonly Cell[], end: number): Pick<ParsedLine, 'number' | 'size'> {
  let number = end;
  let size = cells.length;
  for (const cell of cells) {
    if (cell === undefined) continue;
    size += cell.length;
    for (let at = cell.indexOf('\n'); at !== -1; at = cell.indexOf('\n', at + 1)) number--;
  }
  return { number, size };
}
