import type { Output, Records } from '../sql/index.ts';
import type { Rows } from './database.ts';
import { columns, firstColumn } from './frames.ts';

const comma = 0x2c;

/** Turns the rows of one statement into the JSON of their records, while they arrive. */
export class RecordsReader {
  readonly #records: Records;
  readonly #output: Output;
  #beside: readonly (string | null)[] | undefined;

  /** @param output empty, and nobody else's until the rows are taken */
  constructor(records: Records, output: Output) {
    this.#records = records;
    this.#output = output;
  }

  /** Reads the body of a DataRow. */
  add(bytes: Buffer, start: number, end: number): void {
    const output = this.#output;
    if (this.#beside !== undefined) {
      output.reserve(1);
      output.bytes[output.length++] = comma;
    }
    const at = this.#records.write(bytes, start + firstColumn, output);
    this.#beside = at === end ? none : columns(bytes, at, end);
  }

  /** The rows, see {@link Rows}. The output is free again. */
  take(): Rows {
    return this.#beside === undefined ? [] : [[this.#output.take(), ...this.#beside]];
  }
}

const none: readonly string[] = [];
