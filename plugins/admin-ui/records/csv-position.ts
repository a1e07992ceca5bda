const [quote, lineFeed, carriageReturn] = [0x22, 0x0a, 0x0d];

/**
 * Follows the cells of a CSV text byte by byte. Within a quoted cell, two quotation marks are one of its characters. A
 * quotation mark in a cell that does not start with one is text.
 */
export class CsvPosition {
  private isQuoted = false;
  private startsCell = true;
  private followsQuote = false;
  private readonly separator: number;

  /** @param delimiter the character between cells */
  constructor(delimiter: string) {
    this.separator = delimiter.charCodeAt(0);
  }

  /** Returns whether the next byte opens a quoted cell. */
  isOpening = (byte: number): boolean => byte === quote && this.startsCell;

  /** Returns whether the next byte ends a line. */
  isLineEnd = (byte: number): boolean => !this.isQuoted && (byte === lineFeed || byte === carriageReturn);

  /** Returns whether the next byte ends a cell, also at the end of a line. */
  isCellEnd = (byte: number): boolean => this.isLineEnd(byte) || (!this.isQuoted && byte === this.separator);

  /** Proceeds to the byte after this one. */
  advance(byte: number): void {
    if (byte === quote && (this.isQuoted || this.startsCell || this.followsQuote)) {
      this.followsQuote = this.isQuoted;
      this.isQuoted = !this.isQuoted;
      this.startsCell = false;
    } else {
      this.followsQuote = false;
      this.startsCell = this.isCellEnd(byte);
    }
  }
}
