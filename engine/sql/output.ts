import type { Field } from '../fields/index.ts';

/** A field of a record in a response. */
export interface OutputField extends Pick<Field, 'name'> {
  readonly type: Pick<Field['type'], 'encode'> & {
    readonly csv: Pick<Field['type']['csv'], 'encode' | 'cells'>;
  };
}

/**
 * Writes a record from a row's columns. The row has the format of PostgreSQL's DataRow message: for each
 * column, its length in bytes (32 bits, big-endian, -1 for null), followed by its text.
 * @param offset position of the first column in `row`
 * @returns the position after the last column
 */
export type RowWriter = (row: Buffer, offset: number, output: ByteOutput) => number;

/** Initial capacity of an output buffer, in bytes. Buffers that grow much larger are released after use. */
const initialSize = 64 * 1024;

/** A growing buffer for sequential writes. */
export class ByteOutput {
  bytes: Buffer = Buffer.allocUnsafeSlow(initialSize);
  length = 0;

  /** Ensures capacity for this many additional bytes. */
  reserve(size: number): void {
    const required = this.length + size;
    if (required <= this.bytes.length) return;
    const buffer = Buffer.allocUnsafeSlow(Math.max(required, this.bytes.length * 2));
    this.bytes.copy(buffer, 0, 0, this.length);
    this.bytes = buffer;
  }

  /** Returns a copy of the written bytes and clears the output. */
  take(): Buffer {
    const copy = allocate(this.length);
    this.bytes.copy(copy, 0, 0, this.length);
    this.clear();
    return copy;
  }

  clear(): void {
    this.length = 0;
    if (this.bytes.length > 16 * initialSize) this.bytes = Buffer.allocUnsafeSlow(initialSize);
  }
}

let slab = Buffer.alloc(0);
let slabUsed = 0;

/** Allocates bytes for a response. Small responses share an allocation, because allocating costs more than copying. */
export function allocate(size: number): Buffer {
  if (size > initialSize / 2) return Buffer.allocUnsafeSlow(size);
  if (slabUsed + size > slab.length) {
    slab = Buffer.allocUnsafeSlow(2 * initialSize);
    slabUsed = 0;
  }
  slabUsed += size;
  return slab.subarray(slabUsed - size, slabUsed);
}

/** Returns the total size of a row's values in bytes. @param start position of the first column */
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

/** Copies a few bytes, which is faster than `set`. @returns the position after the last byte written */
export function copyBytes(source: Uint8Array, target: Uint8Array, offset: number): number {
  for (let index = 0; index < source.length; index++) target[offset + index] = source[index] as number;
  return offset + source.length;
}
