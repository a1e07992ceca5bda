import { type Encoder, maxJsonBytesPerByte } from '../fields/index.ts';
import { csvWriter } from './csv.ts';
import { quote } from './names.ts';
import { copyBytes, type OutputField, type RowWriter, valuesSize } from './output.ts';

/** How records are written one after the other: as values of a JSON array, as lines of JSON, or as lines of CSV. */
export type Layout = 'array' | 'ndjson' | 'csv';

/** What a statement selects: the columns of a record, each named like its field, then further ones. */
export interface SelectedColumns {
  readonly fields: readonly OutputField[];
  /** The names of the further columns, which are text. */
  readonly additional?: readonly string[];
  /** Fields whose values in the last row are wanted, after the number of rows. */
  readonly last?: readonly string[];
  /** Absent: `array`. */
  readonly layout?: Layout;
}

/** How the rows of a statement become text. */
export interface RecordWriter {
  /** Writes the record of a row, in its layout. */
  readonly write: RowWriter;
  /** What comes between two records. */
  readonly between: Uint8Array;
  /** The positions of `last` among the columns; undefined if neither they nor the number of rows is wanted. */
  readonly last: readonly number[] | undefined;
  /**
   * The same rows as one: JSON that the database builds, with commas between, then the number of rows and values of the
   * last one if they are wanted, then its further columns. Undefined for layouts that the database does not build.
   */
  readonly asJson: string | undefined;
}

/** What comes between two records in each layout. */
export const separators: Readonly<Record<Layout, string>> = { array: ',', ndjson: '\n', csv: '\r\n' };

/** Compiles how rows become text. */
export const recordWriter = (text: string, selectedColumns: SelectedColumns): RecordWriter => {
  const { fields, last, layout = 'array' } = selectedColumns;
  return {
    write: layout === 'csv' ? csvWriter(fields) : rowWriter(fields),
    between: Uint8Array.from(Buffer.from(separators[layout])),
    last: last?.map((name) => fields.findIndex((field) => field.name === name)),
    asJson: layout === 'array' ? recordsAsJson(text, selectedColumns) : undefined,
  };
};

/** A statement whose one row is what {@link RecordWriter} says of `asJson`. */
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
