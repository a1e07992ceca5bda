const [quote, lineFeed, carriageReturn] = [0x22, 0x0a, 0x0d];

/** What a byte of a CSV text is: the quotation mark that opens a quoted cell, the end of a cell or line, or anything else. */
export type CsvPart = 'opening' | 'content' | 'cellEnd' | 'lineEnd';

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

  /** Reads the next byte. The end of a line is also the end of a cell. */
  read(byte: number): CsvPart {
    const { isQuoted, startsCell } = this;
    if (byte === quote && (isQuoted || startsCell || this.followsQuote)) {
      this.followsQuote = isQuoted;
      this.isQuoted = !isQuoted;
      this.startsCell = false;
      return startsCell ? 'opening' : 'content';
    }
    this.followsQuote = false;
    const part = isQuoted ? 'content' : this.unquotedPart(byte);
    this.startsCell = part !== 'content';
    return part;
  }

  private unquotedPart(byte: number): CsvPart {
    if (byte === lineFeed || byte === carriageReturn) return 'lineEnd';
    return byte === this.separator ? 'cellEnd' : 'content';
  }
}
