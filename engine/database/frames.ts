/** Takes one message of PostgreSQL's protocol: its code, and where its body begins and ends in the bytes. */
export type MessageHandler = (code: number, bytes: Buffer, start: number, end: number) => void;

/** The codes of the messages that this folder reads itself. */
export const codes = {
  dataRow: 0x44,
  error: 0x45,
  readyForQuery: 0x5a,
} as const;

/** The code and the length that each message begins with. */
export const headLength = 5;

/**
 * Splits a stream of bytes into messages.
 * @returns takes the next bytes of the stream
 */
export function frames(take: MessageHandler): (chunk: Buffer) => void {
  let pending: Buffer[] = [];
  let size = 0;
  /** Bytes until the first pending message is complete. */
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

/** The columns of a DataRow from one of them on, as text. */
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

/** One column of a DataRow, as text. @param start where the first one begins */
export function columnAt(bytes: Buffer, start: number, index: number): string | null {
  let at = start;
  for (let before = 0; before < index; before++) at += 4 + Math.max(0, bytes.readInt32BE(at));
  const length = bytes.readInt32BE(at);
  return length === -1 ? null : bytes.toString('utf8', at + 4, at + 4 + length);
}

/** Where the columns of a DataRow begin in its body: after their number. */
export const firstColumn = 2;
