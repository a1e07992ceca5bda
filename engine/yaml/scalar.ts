import { Scalar } from 'yaml';

const isSpace = (text: string, offset: number): boolean => /\s/.test(text.charAt(offset));

/** Returns the offset of the first character in the notation of a scalar, after its quote or block header. */
function contentStart(text: string, start: number, type: Scalar['type']): number {
  if (type === Scalar.QUOTE_DOUBLE || type === Scalar.QUOTE_SINGLE) return start + 1;
  if (type !== Scalar.BLOCK_FOLDED && type !== Scalar.BLOCK_LITERAL) return start;
  const lines = /^[^\n]*\n(?: *(?=\S))?/.exec(text.slice(start));
  return start + (lines?.[0].length ?? 0);
}

/** Returns the length of the notation of the next character. */
function notationLength(text: string, offset: number, type: Scalar['type']): number {
  if (type === Scalar.QUOTE_SINGLE && text.startsWith("''", offset)) return 2;
  if (type !== Scalar.QUOTE_DOUBLE || text[offset] !== '\\') return 1;
  return { x: 4, u: 6, U: 10 }[text.charAt(offset + 1)] ?? 2;
}

/**
 * Converts an offset in a scalar's text to an offset in the file, which can differ because of quotes, escapes and line
 * breaks.
 */
export function scalarOffset(text: string, { range, type, value }: Scalar, textOffset: number): number {
  const content = String(value);
  let offset = contentStart(text, range?.[0] ?? 0, type);
  for (let index = 0; index < Math.min(textOffset, content.length); ) {
    const space = /^\s+/.exec(text.slice(offset));
    if (space?.[0].includes('\n') && isSpace(content, index)) {
      // Spaces around a line break are folded.
      offset += space[0].length;
      while (isSpace(content, index)) index += 1;
    } else if (type === Scalar.QUOTE_DOUBLE && /^\\\r?\n/.test(text.slice(offset))) {
      offset += /^\\\r?\n\s*/.exec(text.slice(offset))?.[0].length ?? 0;
    } else {
      offset += notationLength(text, offset, type);
      index += 1;
    }
  }
  return offset;
}
