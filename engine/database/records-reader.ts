import { type ByteOutput, copyBytes, type RecordWriter } from '../sql/index.ts';
import type { TextRows } from './database.ts';
import { columnAt, columns, firstColumnOffset } from './frames.ts';

/** Writes the records of one statement to an output as its rows arrive. */
export class RecordsReader {
  readonly #records: RecordWriter;
  readonly #output: ByteOutput;
  #extraColumns: readonly (string | null)[] = noColumns;
  #count = 0;
  #lastRow: readonly [bytes: Buffer, at: number] | undefined;

  /** Creates a reader. @param output an empty output, used exclusively until the rows are taken */
  constructor(records: RecordWriter, output: ByteOutput) {
    this.#records = records;
    this.#output = output;
  }

  /** Reads the body of a DataRow. */
  add(bytes: Buffer, start: number, end: number): void {
    const output = this.#output;
    if (this.#count++ > 0) {
      const { between } = this.#records;
      output.reserve(between.length);
      output.length = copyBytes(between, output.bytes, output.length);
    }
    const at = this.#records.write(bytes, start + firstColumnOffset, output);
    if (at < end) this.#extraColumns = columns(bytes, at, end);
    if (this.#records.last !== undefined) this.#lastRow = [bytes, start + firstColumnOffset];
  }

  /** Returns the rows (see {@link TextRows}) and releases the output. */
  take(): TextRows {
    if (this.#count === 0) return [];
    return [[this.#output.take(), ...this.#last(), ...this.#extraColumns]];
  }

  #last(): TextRows[number] {
    const { last } = this.#records;
    if (last === undefined || this.#lastRow === undefined) return noColumns;
    const [bytes, at] = this.#lastRow;
    return [this.#count, ...last.map((index) => columnAt(bytes, at, index))];
  }
}

const noColumns: readonly string[] = [];
