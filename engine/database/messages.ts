import { arrayText, type BoundValue } from '../sql/index.ts';

/** Type codes of messages, and the code that denotes a statement in a Close message. */
const [parse, bind, execute, close, sync, statement] = [0x50, 0x42, 0x45, 0x43, 0x53, 0x53] as const;

/** Maximum number of UTF-8 bytes per UTF-16 code unit. */
const maxBytesPerUnit = 3;
/** Initial buffer size, and maximum buffer size kept between sends, in bytes. */
const [initialSize, maxKeptSize] = [16 * 1024, 1024 * 1024];

/** Collects protocol messages that are sent to PostgreSQL together. */
export class Messages {
  #bytes: Buffer = Buffer.allocUnsafeSlow(initialSize);
  #length = 0;

  /** Prepares a named statement. Parameter types are inferred from casts. */
  parse(name: string, text: string): void {
    const start = this.#begin(parse, (name.length + text.length) * maxBytesPerUnit + 4);
    this.#text(name);
    this.#text(text);
    this.#int16(0);
    this.#end(start);
  }

  /** Binds a prepared statement to text values. Results are returned as text. */
  bind(name: string, values: readonly BoundValue[]): void {
    const texts = values.map((value) =>
      value === null || typeof value === 'string' ? value : arrayText(value),
    );
    let size = name.length * maxBytesPerUnit + 10;
    for (const value of texts) size += 4 + (value === null ? 0 : value.length * maxBytesPerUnit);
    const start = this.#begin(bind, size);
    this.#text('');
    this.#text(name);
    this.#int16(0);
    this.#int16(texts.length);
    for (const value of texts) this.#value(value);
    this.#int16(0);
    this.#end(start);
  }

  /** Executes the bound statement to completion. */
  execute(): void {
    const start = this.#begin(execute, 5);
    this.#text('');
    this.#int32(0);
    this.#end(start);
  }

  /** Closes a prepared statement. */
  close(name: string): void {
    const start = this.#begin(close, name.length * maxBytesPerUnit + 2);
    this.#bytes[this.#length++] = statement;
    this.#text(name);
    this.#end(start);
  }

  /** Ends the implicit transaction, so that an earlier error does not affect later messages. */
  sync(): void {
    this.#end(this.#begin(sync, 0));
  }

  /** Returns all messages and clears the buffer. */
  take(): Buffer {
    const bytes = Buffer.from(this.#bytes.subarray(0, this.#length));
    if (this.#bytes.length > maxKeptSize) this.#bytes = Buffer.allocUnsafeSlow(initialSize);
    this.#length = 0;
    return bytes;
  }

  /** Starts a message. @returns the offset of the length field */
  #begin(code: number, size: number): number {
    const requiredSize = this.#length + size + 5;
    if (requiredSize > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(requiredSize, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    this.#bytes[this.#length] = code;
    this.#length += 5;
    return this.#length - 4;
  }

  #end(start: number): void {
    this.#bytes.writeInt32BE(this.#length - start, start);
  }

  #int16(value: number): void {
    this.#length = this.#bytes.writeInt16BE(value, this.#length);
  }

  #int32(value: number): void {
    this.#length = this.#bytes.writeInt32BE(value, this.#length);
  }

  #text(text: string): void {
    if (text !== '') this.#length += this.#bytes.write(text, this.#length);
    this.#bytes[this.#length++] = 0;
  }

  #value(value: string | null): void {
    if (value === null) {
      this.#int32(-1);
      return;
    }
    const size = this.#bytes.write(value, this.#length + 4);
    this.#int32(size);
    this.#length += size;
  }
}
