import type { Field } from '../fields/index.ts';

export interface OutputField extends Pick<Field, 'name'> {
  readonly type: Pick<Field['type'], 'encode' | 'json'>;
}

/**
 * Writes a record from the columns of a row: for each its length in bytes (32 bits, big-endian; -1: null) and
 * its text, as DataRow of PostgreSQL's protocol has them.
 * @param at where the first column begins in `row`
 * @returns the end of the record's columns
 */
export type RowWriter = (row: Buffer, offset: number, output: ByteOutput) => number;

/** Bytes that a new output has room for, and that it goes back to after a larger one. */
const usualSize = 64 * 1024;

/** Bytes that are written one after the other. */
export class ByteOutput {
  bytes: Buffer = Buffer.allocUnsafeSlow(usualSize);
  length = 0;

  /** Makes room for so many further bytes. */
  reserve(size: number): void {
    const required = this.length + size;
    if (required <= this.bytes.length) return;
    const extended = Buffer.allocUnsafeSlow(Math.max(required, this.bytes.length * 2));
    this.bytes.copy(extended, 0, 0, this.length);
    this.bytes = extended;
  }

  /** Takes what was written; the next writes begin again. */
  take(): Buffer {
    const copy = slice(this.length);
    this.bytes.copy(copy, 0, 0, this.length);
    this.clear();
    return copy;
  }

  clear(): void {
    this.length = 0;
    if (this.bytes.length > 16 * usualSize) this.bytes = Buffer.allocUnsafeSlow(usualSize);
  }
}

let slab = Buffer.alloc(0);
let slabUsed = 0;

/** Room for a response. Many share one allocation, for each costs more than the copying. */
export function slice(size: number): Buffer {
  if (size > usualSize / 2) return Buffer.allocUnsafeSlow(size);
  if (slabUsed + size > slab.length) {
    slab = Buffer.allocUnsafeSlow(2 * usualSize);
    slabUsed = 0;
  }
  slabUsed += size;
  return slab.subarray(slabUsed - size, slabUsed);
}

/** Bytes of the values in the columns of a row. @param start where the first column begins */
export function valuesSize(row: Buffer, start: number, columns: number): number {
  let offset = start;
  let size = 0;
  for (let index = 0; index < columns; index++) {
    const length = row.readInt32BE(offset);
    offset += 4;
    if (length > 0) {
      size += length;
      offset += length;
    }
  }
  return size;
}

/** Copies few bytes, for which a call of `set` would take longer. @returns the end of what was written */
export function copyBytes(source: Uint8Array, target: Uint8Array, offset: number): number {
  for (let index = 0; index < source.length; index++) target[offset + index] = source[index] as number;
  return offset + source.length;
}
