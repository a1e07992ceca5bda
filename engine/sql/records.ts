import { type Encoder, longest } from '../fields/index.ts';
import { quote } from './names.ts';

/** A column of a record, named like its key in JSON. */
interface NamedField {
  readonly name: string;
  readonly type: { readonly encode: Encoder };
}

/** What a statement selects: the columns of a record, each named like its field, then further ones. */
export interface Selected {
  readonly fields: readonly NamedField[];
  /** The names of the further columns, which are text. */
  readonly further?: readonly string[];
  /** Fields whose values in the last row are wanted, after the number of rows. */
  readonly last?: readonly string[];
}

/** How the rows of a statement become JSON. */
export interface Records {
  /** Writes the record of a row. */
  readonly write: RowWriter;
  /** The positions of `last` among the columns; undefined if neither they nor the number of rows is wanted. */
  readonly last: readonly number[] | undefined;
  /**
   * The same rows as one: JSON that the database builds, with commas between, then the number of rows and values of the
   * last one if they are wanted, then its further columns.
   */
  readonly asJson: string;
}

/**
 * Writes a record as JSON from the columns of a row: for each its length in bytes (32 bits, big-endian; -1: null) and
 * its text, as DataRow of PostgreSQL's protocol has them.
 * @param at where the first column begins in `row`
 * @returns the end of the record's columns
 */
export type RowWriter = (row: Buffer, at: number, output: Output) => number;

/** Bytes that a new output has room for, and that it goes back to after a larger one. */
const usualSize = 64 * 1024;

/** Bytes that are written one after the other. */
export class Output {
  bytes: Buffer = Buffer.allocUnsafeSlow(usualSize);
  length = 0;

  /** Makes room for so many further bytes. */
  reserve(size: number): void {
    const needed = this.length + size;
    if (needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }

  /** Takes what was written; the next writes begin again. */
  take(): Buffer {
    const taken = slice(this.length);
    this.bytes.copy(taken, 0, 0, this.length);
    this.clear();
    return taken;
  }

  clear(): void {
    this.length = 0;
    if (this.bytes.length > 16 * usualSize) this.bytes = Buffer.allocUnsafeSlow(usualSize);
  }
}

let slab = Buffer.alloc(0);
let used = 0;

/** Room for a response. Many share one allocation, for each costs more than the copying. */
export function slice(size: number): Buffer {
  if (size > usualSize / 2) return Buffer.allocUnsafeSlow(size);
  if (used + size > slab.length) {
    slab = Buffer.allocUnsafeSlow(2 * usualSize);
    used = 0;
  }
  used += size;
  return slab.subarray(used - size, used);
}

/** Compiles how rows become JSON. */
export const recordsOf = (text: string, selected: Selected): Records => ({
  write: rowWriter(selected.fields),
  last: selected.last?.map((name) => selected.fields.findIndex((field) => field.name === name)),
  asJson: recordsAsJson(text, selected),
});

/** A statement whose one row is what {@link Records} says of `asJson`. */
export function recordsAsJson(text: string, { fields, further = [], last }: Selected): string {
  const ofRecord = fields.map(({ name }) => `_r.${quote(name)}`).join(', ');
  const record =
    further.length === 0
      ? 'row_to_json(_r)::text'
      : `(select row_to_json(_f) from (select ${ofRecord}) _f)::text`;
  const lastOf = (name: string) => `(array_agg(_r.${quote(name)}))[count(*)]::text`;
  const count = last === undefined ? [] : ['count(*)::text'];
  const afterRecords = [...count, ...(last ?? []).map(lastOf), ...further.map(lastOf)].map(
    (sql, index) => `${sql} as ${quote(`_${index}`)}`,
  );
  return `select ${[`string_agg(${record}, ',')`, ...afterRecords].join(', ')} from (${text}) _r`;
}

const [closing, nullText] = [Buffer.from('}'), Buffer.from('null')];

function rowWriter(fields: readonly NamedField[]): RowWriter {
  const keys = fields.map(({ name }, index) =>
    Uint8Array.from(Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`)),
  );
  const encoders = fields.map(({ type }) => type.encode);
  const constant = keys.reduce((sum, key) => sum + key.length + nullText.length, closing.length);
  return (row, start, output) => {
    let at = start;
    let size = 0;
    for (let index = 0; index < keys.length; index++) {
      const length = row.readInt32BE(at);
      at += 4;
      if (length > 0) {
        size += length;
        at += length;
      }
    }
    output.reserve(constant + size * longest);
    const to = output.bytes;
    let next = output.length;
    at = start;
    for (let index = 0; index < keys.length; index++) {
      next = copied(keys[index] as Uint8Array, to, next);
      const length = row.readInt32BE(at);
      at += 4;
      if (length === -1) {
        next = copied(nullText, to, next);
        continue;
      }
      next = (encoders[index] as Encoder)(row, at, at + length, to, next);
      at += length;
    }
    output.length = copied(closing, to, next);
    return at;
  };
}

/** Copies few bytes, for which a call of `set` would take longer. @returns the end of what was written */
function copied(from: Uint8Array, to: Uint8Array, at: number): number {
  for (let index = 0; index < from.length; index++) to[at + index] = from[index] as number;
  return at + from.length;
}
