/** Handles one protocol message. `start` and `end` delimit the message body. */
export type MessageHandler = (code: number, bytes: Buffer, start: number, end: number) => void;

/** Type codes of the server messages that are parsed here. */
export const codes = {
  dataRow: 0x44,
  error: 0x45,
  readyForQuery: 0x5a,
} as const;

/** Size of a message header (type code and length), in bytes. */
export const headLength = 5;

/**
 * Splits a byte stream into messages.
 * @returns a function that accepts the next chunk
 */
export function frames(onMessage: MessageHandler): (chunk: Buffer) => void {
  let pending: Buffer[] = [];
  let size = 0;
  /** Total size required to complete the first pending message. */
  let missing = 0;

  return (chunk) => {
    let bytes = chunk;
    if (size > 0) {
      pending.push(chunk);
      size += chunk.length;
      if (size < missing) return;
      bytes = Buffer.concat(pending, size);
      pending = [];
      size = 0;
    }
    let at = 0;
    while (at < bytes.length) {
      const available = bytes.length - at;
      const length = available < headLength ? headLength : 1 + bytes.readUInt32BE(at + 1);
      if (available < headLength || available < length) {
        pending = [bytes.subarray(at)];
        size = available;
        missing = length;
        return;
      }
      onMessage(bytes[at] as number, bytes, at + headLength, at + length);
      at += length;
    }
  };
}

/** Returns the columns of a DataRow as text. @param start offset of the first column */
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

/** Returns one column of a DataRow as text. @param start offset of the first column */
export function columnAt(bytes: Buffer, start: number, index: number): string | null {
  let at = start;
  for (let column = 0; column < index; column++) at += 4 + Math.max(0, bytes.readInt32BE(at));
  const length = bytes.readInt32BE(at);
  return length === -1 ? null : bytes.toString('utf8', at + 4, at + 4 + length);
}

/** Offset of the columns in a DataRow's body, after the column count. */
export const firstColumnOffset = 2;
