import { Transform, type TransformCallback } from 'node:stream';
import { type Delimiter, delimiters } from '../../../engine/records/index.ts';
import { CsvPosition } from './csv-position.ts';

const code = (character: string): number => character.charCodeAt(0);
const apostrophe = code("'");
/** Characters that make spreadsheets evaluate a cell as a formula, and the apostrophe, which prevents this. */
const formulas = new Set(["'", '=', '+', '-', '@', '\t', '\r'].map(code));

/**
 * Determines how the start of a cell changes: `add` adds an apostrophe, and `hold` removes one before a
 * formula.
 */
type CellTransform = (cell: {
  readonly first: number;
  readonly column: number;
  readonly isHeader: boolean;
}) => 'add' | 'hold' | 'keep';

/** Changes the start of each CSV cell. */
class Cells extends Transform {
  /** Whether nothing of the current cell has been read except a quotation mark that opens it. */
  private isStart = true;
  private column = 0;
  private isHeader = true;
  /** Whether an apostrophe at the start of a cell has been read but not yet written. */
  private hasPendingApostrophe = false;

  private readonly change: CellTransform;
  private readonly position: CsvPosition;

  constructor(change: CellTransform, delimiter: Delimiter = 'comma') {
    super();
    this.change = change;
    this.position = new CsvPosition(delimiters[delimiter]);
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    // Each byte starts at most one cell, which gets at most one apostrophe.
    const output = Buffer.allocUnsafe(2 * chunk.length);
    let length = 0;
    const { position } = this;
    // Using an index is several times faster than iterating over the bytes.
    for (let index = 0; index < chunk.length; index++) {
      const byte = chunk[index] as number;
      const part = position.read(byte);
      if (this.hasPendingApostrophe) {
        this.hasPendingApostrophe = false;
        if (!formulas.has(byte)) output[length++] = apostrophe;
      } else if (this.isStart && part === 'content') {
        const edit = this.change({ first: byte, column: this.column, isHeader: this.isHeader });
        this.isStart = false;
        if (edit === 'hold') {
          this.hasPendingApostrophe = true;
          continue;
        }
        if (edit === 'add') output[length++] = apostrophe;
      }
      if (part === 'cellEnd' || part === 'lineEnd') {
        this.isStart = true;
        this.column = part === 'lineEnd' ? 0 : this.column + 1;
        this.isHeader &&= part !== 'lineEnd';
      }
      output[length++] = byte;
    }
    done(null, output.subarray(0, length));
  }

  override _flush(done: TransformCallback): void {
    done(null, this.hasPendingApostrophe ? Buffer.from([apostrophe]) : undefined);
  }
}

/** Returns a text as a quoted CSV cell that spreadsheets do not evaluate as a formula. */
export const safeCell = (text: string): string =>
  `"${formulas.has(code(text)) ? "'" : ''}${text.replaceAll('"', '""')}"`;

/**
 * Adds an apostrophe to text cells that spreadsheets would evaluate as formulas.
 * @param isText returns whether a column contains text
 */
export const escapeFormulas = (isText: (column: number) => boolean): Transform =>
  new Cells(({ first, column, isHeader }) =>
    !isHeader && isText(column) && formulas.has(first) ? 'add' : 'keep',
  );

/** Removes the apostrophes added by {@link escapeFormulas}, so that importing an exported file restores its values. */
export const unescapeFormulas = (delimiter: Delimiter): Transform =>
  new Cells(({ first, isHeader }) => (!isHeader && first === apostrophe ? 'hold' : 'keep'), delimiter);
