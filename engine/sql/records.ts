import { type Encoder, maxJsonBytesPerByte } from '../fields/index.ts';
import { quote } from './names.ts';
import { copyBytes, type OutputField, type RowWriter, valuesSize } from './output.ts';

const comma = ','.charCodeAt(0);

/** Additional bytes per field: a comma and two quotes. */
const delimiterBytes = 3;

/**
 * Compiles a writer for CSV records (RFC 4180) without line endings. Null becomes an empty cell and an empty
 * string becomes `""`. Numbers and booleans are written as in JSON.
 */
function csvWriter(fields: readonly OutputField[]): RowWriter {
  const encoders = fields.map(({ type }) => type.csv.encode);
  const cells = fields.reduce((sum, { type }) => sum + (type.csv.cells ?? 1), 0);
  return (row, start, output) => {
    output.reserve(valuesSize(row, start, encoders.length) * maxJsonBytesPerByte + cells * delimiterBytes);
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

/** Format for several records: elements of a JSON array, lines of JSON, or lines of CSV. */
export type Layout = 'array' | 'ndjson' | 'csv';

/**
 * The columns selected by a statement: one per field of the record, named after the field, and additional
 * columns.
 */
export interface SelectedColumns {
  readonly fields: readonly OutputField[];
  /** Names of the additional columns, whose values are text. */
  readonly additional?: readonly string[];
  /** Fields whose values in the last row are returned after the number of rows. */
  readonly last?: readonly string[];
  /** Default: `array`. */
  readonly layout?: Layout;
}

/** Writes a statement's rows as text. */
export interface RecordWriter {
  /** Writes the record in a row. */
  readonly write: RowWriter;
  /** Separator between two records. */
  readonly between: Uint8Array;
  /** Column indexes of the `last` fields. Undefined if neither their values nor the number of rows are returned. */
  readonly last: readonly number[] | undefined;
  /**
   * A statement that returns all records in one row. Its columns are the comma-separated JSON of the
   * records, the number of rows and the `last` values if requested, and the additional columns of the last
   * row. Undefined for layouts other than `array`.
   */
  readonly asJson: string | undefined;
}

/** Separators between two records, keyed by layout. */
export const separators: Readonly<Record<Layout, string>> = { array: ',', ndjson: '\n', csv: '\r\n' };

/** Compiles the writer for a statement's records. */
export const recordWriter = (text: string, selectedColumns: SelectedColumns): RecordWriter => {
  const { fields, last, layout = 'array' } = selectedColumns;
  return {
    write: layout === 'csv' ? csvWriter(fields) : rowWriter(fields),
    between: Uint8Array.from(Buffer.from(separators[layout])),
    last: last?.map((name) => fields.findIndex((field) => field.name === name)),
    asJson: layout === 'array' ? recordsAsJson(text, selectedColumns) : undefined,
  };
};

/** Returns the `asJson` statement of a {@link RecordWriter}. */
export function recordsAsJson(text: string, { fields, additional = [], last }: SelectedColumns): string {
  const recordColumns = fields.map(({ name }) => `_r.${quote(name)}`).join(', ');
  const record =
    additional.length === 0
      ? 'row_to_json(_r)::text'
      : `(select row_to_json(_f) from (select ${recordColumns}) _f)::text`;
  const lastOf = (name: string) => `(array_agg(_r.${quote(name)}))[count(*)]::text`;
  const count = last === undefined ? [] : ['count(*)::text'];
  const afterRecords = [...count, ...(last ?? []).map(lastOf), ...additional.map(lastOf)].map(
    (sql, index) => `${sql} as ${quote(`_${index}`)}`,
  );
  return `select ${[`string_agg(${record}, ',')`, ...afterRecords].join(', ')} from (${text}) _r`;
}

const [closingBrace, nullText] = [Buffer.from('}'), Buffer.from('null')];

/** Compiles a writer for JSON objects. */
function rowWriter(fields: readonly OutputField[]): RowWriter {
  const keys = fields.map(({ name }, index) =>
    Uint8Array.from(Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`)),
  );
  const encoders = fields.map(({ type }) => type.encode);
  const constantSize = keys.reduce((sum, key) => sum + key.length + nullText.length, closingBrace.length);
  return (row, start, output) => {
    let offset = start;
    output.reserve(constantSize + valuesSize(row, start, keys.length) * maxJsonBytesPerByte);
    const target = output.bytes;
    let next = output.length;
    for (let index = 0; index < keys.length; index++) {
      next = copyBytes(keys[index] as Uint8Array, target, next);
      const length = row.readInt32BE(offset);
      offset += 4;
      if (length === -1) {
        next = copyBytes(nullText, target, next);
        continue;
      }
      next = (encoders[index] as Encoder)(row, offset, offset + length, target, next);
      offset += length;
    }
    output.length = copyBytes(closingBrace, target, next);
    return offset;
  };
}
