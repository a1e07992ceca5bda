/** Handles one protocol message: its code, and the start and end of its body in the bytes. */
export type MessageHandler = (code: number, bytes: Buffer, start: number, end: number) => void;

/** Codes of the messages read by this room. */
export const codes = {
  dataRow: 0x44,
  error: 0x45,
  readyForQuery: 0x5a,
} as const;

/** Length of the code and length at the start of each message. */
export const headLength = 5;

/**
 * Splits a byte stream into messages.
 * @returns a function that accepts the next chunk
 */
export function frames(take: MessageHandler): (chunk: Buffer) => void {
  let pending: Buffer[] = [];
  let size = 0;
  /** Bytes missing from the first pending message. */
  let needed = 0;

  return (chunk) => {
    let bytes = chunk;
    if (size > 0) {
      pending.push(chunk);
      size += chunk.length;
      if (size < needed) return;
      bytes = Buffer.concat(pending, size);
      pending = [];
      size = 0;
    }
    let at = 0;
    while (at < bytes.length) {
      const left = bytes.length - at;
      const length = left < headLength ? headLength : 1 + bytes.readUInt32BE(at + 1);
      if (left < headLength || left < length) {
        pending = [bytes.subarray(at)];
        size = left;
        needed = length;
        return;
      }
      take(bytes[at] as number, bytes, at + headLength, at + length);
      at += length;
    }
  };
}

/** Returns the columns of a DataRow as text, from a position on. */
export function columns(bytes: Buffer, start: number, end: number): (string | null)[] {
  const values: (string | null)[] = [];
  for (let at = start; at < end; ) {
    const length = bytes.readInt32BE(at);
    at += 4;
    values.push(length === -1 ? null : bytes.toString('utf8', at, at + length));
    if (length > 0) at += length;
  }
  return values;
}

/** Returns one column of a DataRow as text. @param start start of the first column */
export function columnAt(bytes: Buffer, start: number, index: number): string | null {
  let at = start;
  for (let before = 0; before < index; before++) at += 4 + Math.max(0, bytes.readInt32BE(at));
  const length = bytes.readInt32BE(at);
  return length === -1 ? null : bytes.toString('utf8', at + 4, at + 4 + length);
}

/** Offset of the columns in a DataRow's body, after their count. */
export const firstColumn = 2;
