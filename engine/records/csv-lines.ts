import { pipeline, Readable } from 'node:stream';
import { type InfoField, parse } from 'csv-parse';
import { errors, type FieldIssue } from '../errors.ts';
import { type Field, jsonNumber } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import type { Body } from './body.ts';
import { type LineReader, maxRecord, type ParsedLine } from './lines.ts';
import { unknownField } from './unknown.ts';

/** A cell of CSV: its text; undefined if it is empty and has no quotes. */
type Cell = string | undefined;

/** A column whose cells become values of JSON; undefined for "absent". */
interface Column {
  readonly name: string;
  readonly value: (cell: Cell) => unknown;
}

/**
 * The records of CSV (RFC 4180), whose first one has the names of fields. Iterating fails with an HttpError 400 where
 * the text is no CSV, or its header has no writable field, the same one twice or, if the caller is strict, any other.
 * @param current gives the name that a field has now, by one that it had
 */
export function csvLines(
  source: AsyncIterable<Buffer>,
  fields: readonly Field[],
  strict: boolean,
  current = (name: string): string => name,
): LineReader {
  const ignored: string[] = [];
  // A file with both names, as exports are, has the former one as a further column.
  const named = (header: readonly Cell[]) =>
    header.map((name = '') => (header.includes(current(name)) ? name : current(name)));
  const read = (header: readonly Cell[]) => columnsOf(named(header), fields, strict, ignored);
  return Object.assign(records(source, read), { ignored });
}

async function* records(
  source: AsyncIterable<Buffer>,
  read: (header: readonly Cell[]) => readonly (Column | undefined)[],
): AsyncGenerator<readonly ParsedLine[]> {
  const parser = parse({
    bom: true,
    cast: (text: string, { quoting }: InfoField): Cell => (text === '' && !quoting ? undefined : text),
    info: true,
    max_record_size: maxRecord,
    relax_column_count: true,
    skip_empty_lines: true,
  });
  pipeline(Readable.from(texts(source)), parser, () => {});
  let columns: readonly (Column | undefined)[] | undefined;
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      if (columns === undefined) columns = read(record);
      else yield [{ ...measured(record, info.lines), record: recordOf(columns, record) }];
    }
  } catch (cause) {
    throw csvError(cause) ?? cause;
  }
  if (columns === undefined) throw errors.invalidCsv('the body is empty');
}

/** What the parser yields; `lines` is where the record ends. */
interface Parsed {
  readonly record: readonly Cell[];
  readonly info: { readonly lines: number };
}

/** Decodes a text. @throws HttpError 400 unless it is UTF-8 */
async function* texts(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const decode = (bytes?: Buffer): string => {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      throw errors.invalidCsv('it is not UTF-8');
    }
  };
  for await (const bytes of source) yield decode(bytes);
  yield decode();
}

/** The parser's reasons; its own messages quote the text, which may hold personal data. */
const reasons: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: 'there is something after a closing quote',
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  CSV_MAX_RECORD_SIZE: `it is longer than ${maxRecord} bytes, or a quote is not closed`,
  INVALID_OPENING_QUOTE: 'a quote is in a cell that does not begin with one',
};

function csvError(cause: unknown) {
  const { code = '', lines } = cause as { code?: string; lines?: number };
  const reason = reasons[code];
  return reason === undefined ? undefined : errors.invalidCsv(`line ${lines}: ${reason}`);
}

/** The columns of a header; undefined for those that are ignored, whose names are added to `ignored`. */
function columnsOf(
  header: readonly Cell[],
  fields: readonly Field[],
  strict: boolean,
  ignored: string[],
): readonly (Column | undefined)[] {
  const problems: FieldIssue[] = [];
  const unknown = unknownField(fields.filter((field) => !field.readOnly).map((field) => field.name));
  const columns = header.map((name = '', index) => {
    const field = fields.find((each) => each.name === name);
    if (header.indexOf(name) < index) problems.push(parameterIssue(name, 'is there twice'));
    if (field !== undefined && !field.readOnly) return { name, value: reader(field) };
    ignored.push(name);
    if (strict) problems.push(field ? parameterIssue(name, 'is read-only') : unknown(name, index));
    return undefined;
  });
  if (columns.every((column) => column === undefined))
    problems.push(
      parameterIssue('header', 'has no writable field: the first line must have the names of fields'),
    );
  if (problems.length > 0) throw errors.invalidFields(problems);
  return columns;
}

/** How a cell becomes a value of a field. A text that it cannot be stays a text, which is refused like any other. */
function reader({ type }: Field): Column['value'] {
  const kind = type.json.type;
  if (kind === 'string' && type.empty === '') return (cell) => cell;
  return (cell) => {
    if (cell === undefined || cell === '') return undefined;
    if (kind === 'boolean') return booleans[cell.toLowerCase()] ?? cell;
    return kind === 'string' ? cell : (jsonNumber(cell) ?? cell);
  };
}

const booleans: Readonly<Record<string, boolean | undefined>> = { true: true, false: false };

function recordOf(columns: readonly (Column | undefined)[], cells: readonly Cell[]) {
  if (cells.length !== columns.length)
    return errors.invalidCsv(`it has ${cells.length} cells, and the header ${columns.length}`);
  const record: Record<string, unknown> = {};
  for (const [index, column] of columns.entries()) {
    const value = column?.value(cells[index]);
    if (column !== undefined && value !== undefined) record[column.name] = value;
  }
  return record satisfies Body;
}

/** Where a record begins, and its size. @param end the line where it ends */
function measured(cells: readonly Cell[], end: number): Pick<ParsedLine, 'number' | 'size'> {
  let number = end;
  let size = cells.length;
  for (const cell of cells) {
    if (cell === undefined) continue;
    size += cell.length;
    for (let at = cell.indexOf('\n'); at !== -1; at = cell.indexOf('\n', at + 1)) number--;
  }
  return { number, size };
}
