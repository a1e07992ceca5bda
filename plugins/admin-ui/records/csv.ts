import { Transform, type TransformCallback } from 'node:stream';

const code = (character: string): number => character.charCodeAt(0);
const [quote, comma, lineFeed, carriageReturn, apostrophe] = [
  code('"'),
  code(','),
  code('\n'),
  code('\r'),
  code("'"),
];
/** What makes spreadsheets take a cell for a formula; and the sign that keeps them from it, so that it can be taken away again. */
const formulas = new Set(["'", '=', '+', '-', '@', '\t', '\r'].map(code));

/** What becomes of the beginning of a cell: an apostrophe before it, or its apostrophe away if it hides a formula. */
type Change = (cell: {
  readonly first: number;
  readonly column: number;
  readonly isHead: boolean;
}) => 'add' | 'hold' | 'keep';

/** Follows the cells of CSV; what is at the beginning of one goes through `change`. */
class Cells extends Transform {
  private isQuoted = false;
  private isStart = true;
  private column = 0;
  private line = 0;
  /** An apostrophe at the beginning of a cell that is not written yet. */
  private isHeld = false;

  private readonly change: Change;

  constructor(change: Change) {
    super();
    this.change = change;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const written: number[] = [];
    for (const byte of chunk) {
      if (this.isHeld) {
        this.isHeld = false;
        if (!formulas.has(byte)) written.push(apostrophe);
      } else if (this.isStart && byte !== quote && byte !== comma && byte !== lineFeed) {
        const what = this.change({ first: byte, column: this.column, isHead: this.line === 0 });
        this.isStart = false;
        if (what === 'hold') {
          this.isHeld = true;
          continue;
        }
        // The end of a line is no cell.
        if (what === 'add' && (this.isQuoted || byte !== carriageReturn)) written.push(apostrophe);
      }
      if (byte === quote) {
        // The quote that opens a cell is no part of it.
        if (this.isQuoted) this.isStart = false;
        this.isQuoted = !this.isQuoted;
      } else if (!this.isQuoted && (byte === comma || byte === lineFeed)) {
        this.isStart = true;
        this.column = byte === comma ? this.column + 1 : 0;
        if (byte === lineFeed) this.line++;
      }
      written.push(byte);
    }
    done(null, Buffer.from(written));
  }

  override _flush(done: TransformCallback): void {
    done(null, this.isHeld ? Buffer.from([apostrophe]) : undefined);
  }
}

/** Puts an apostrophe before texts that a spreadsheet would take for formulas. @param isText whether a column has texts */
export const escapeFormulas = (isText: (column: number) => boolean): Transform =>
  new Cells(({ first, column, isHead }) =>
    !isHead && isText(column) && formulas.has(first) ? 'add' : 'keep',
  );

/** Takes the apostrophes of {@link escapeFormulas} away again, so that an exported file comes back as it was. */
export const unescapeFormulas = (): Transform =>
  new Cells(({ first, isHead }) => (!isHead && first === apostrophe ? 'hold' : 'keep'));
