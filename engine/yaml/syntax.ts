import { CST, type Document, isMap, isScalar, Lexer, type YAMLError } from 'yaml';

/** A syntax issue: its offset in the text, and a message that explains how to fix it. */
export interface SyntaxIssue {
  readonly offset: number;
  readonly message: string;
}

/** Codes of errors from which the parser recovers. Errors that follow any other error are unreliable. */
const recoverableCodes = new Set([
  'DUPLICATE_KEY',
  'TAG_RESOLVE_FAILED',
  'BAD_DQ_ESCAPE',
  'BAD_SCALAR_START',
]);

/** The message for a file that exhausts the parser's stack. */
export const tooDeep = 'the file is nested too deeply';

const tabMessage = 'this line is indented with a tab. YAML allows only spaces.';

/** Returns the syntax issues in a text, in order, up to the first that makes the rest unreadable. */
export function findSyntaxIssues(text: string, document: Document): SyntaxIssue[] {
  const conflict = /^<{7}(?: |$)/m.exec(text);
  if (conflict !== null) {
    const message =
      'unresolved merge conflict. Keep one side and delete the lines that start with <<<<<<<, ======= and >>>>>>>.';
    return [{ offset: conflict.index, message }];
  }
  const errors = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  const fatalIndex = errors.findIndex(({ code }) => !recoverableCodes.has(code));
  if (fatalIndex === -1) return errors.map((error) => toIssue(text, document, error));
  // If several errors share a position, the errors with these codes have the most specific messages.
  const candidates = errors.filter(({ pos }) => pos[0] === errors[fatalIndex]?.pos[0]);
  const specific = ['BLOCK_IN_FLOW', 'MISSING_CHAR'].flatMap(
    (code) => candidates.find((error) => error.code === code) ?? [],
  );
  return [...errors.slice(0, fatalIndex), specific[0] ?? (errors[fatalIndex] as YAMLError)].map((error) =>
    toIssue(text, document, error),
  );
}

/** Converts a parser error to an issue with a more helpful message. */
function toIssue(text: string, document: Document, { code, pos, message }: YAMLError): SyntaxIssue {
  const offset = pos[0];
  const issueAt = (issueOffset: number, issueMessage: string): SyntaxIssue => ({
    offset: issueOffset,
    message: issueMessage,
  });
  const word = shorten(/^[^\s,{}[\]]*/.exec(text.slice(offset))?.[0] ?? '');
  switch (code) {
    case 'DUPLICATE_KEY':
      return issueAt(offset, duplicateKeyMessage(text, document, offset));
    case 'TAB_AS_INDENT':
      return issueAt(offset, tabMessage);
    case 'MULTIPLE_DOCS':
      return issueAt(offset, 'a second document starts here. A file can have only one: delete this line.');
    case 'BAD_SCALAR_START':
      return issueAt(
        offset,
        `text that starts with "${text[offset]}" needs quotes: "${valueAt(text, offset)}"`,
      );
    case 'TAG_RESOLVE_FAILED':
      return issueAt(offset, `tags (${word}) are not allowed. Text that starts with "!" needs quotes.`);
    case 'BAD_DQ_ESCAPE': {
      const sign = text.slice(offset, offset + 2);
      return issueAt(
        offset,
        `${sign} is not a valid escape in double quotes. Write \\${sign}, or use single quotes.`,
      );
    }
    case 'BLOCK_IN_FLOW':
    case 'BLOCK_AS_IMPLICIT_KEY':
      return colonIssue(text, offset);
    case 'RESOURCE_EXHAUSTION':
      return issueAt(offset, tooDeep);
    default:
      return /call stack/i.test(message)
        ? issueAt(offset, tooDeep)
        : (bracketIssue(text, offset, message) ??
            lineIssue(text, offset, code) ??
            issueAt(offset, `invalid YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`));
  }
}

/** Shortens text for a message. */
const shorten = (text: string): string => (text.length > 40 ? `${text.slice(0, 39)}…` : text);

/** Returns the value at an offset, up to the end of the line and without delimiters. */
const valueAt = (text: string, offset: number): string =>
  shorten(/^[^\n,}\]]*/.exec(text.slice(offset))?.[0].trimEnd() ?? '');

/** Returns the message for a duplicate key, with the line of the first occurrence. */
function duplicateKeyMessage(text: string, document: Document, offset: number): string {
  const queue: unknown[] = [document.contents];
  while (queue.length > 0) {
    const node = queue.pop();
    const items = (node as { items?: readonly { key?: unknown; value?: unknown }[] } | null)?.items ?? [];
    if (isMap(node)) {
      const keys = node.items.map(({ key }) => key).filter(isScalar);
      const key = keys.find(({ range }) => range?.[0] === offset);
      const first = keys.find(({ value }) => key !== undefined && value === key.value);
      if (key !== undefined && first?.range) {
        return `"${shorten(String(key.value))}" is a duplicate key. It is already set on line ${lineOf(text, first.range[0])}.`;
      }
    }
    for (const item of items) queue.push(item.value ?? item);
  }
  return 'duplicate key';
}

const lineOf = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

/**
 * Describes an unexpected ": ", which is caused by a missing comma before a key or by an unquoted string that
 * needs quotes.
 */
function colonIssue(text: string, start: number): SyntaxIssue {
  const offset = start + (/^ */.exec(text.slice(start))?.[0].length ?? 0);
  if (text.slice(offset, offset + 2) === '- ') {
    return { offset, message: 'unexpected list item ("- "). A key and its value are expected here.' };
  }
  const [value = ''] = /^[^,{}[\]]*?:(?=\s|$)/.exec(text.slice(offset)) ?? [];
  const [, key] = /\s([\w-]+):$/.exec(value) ?? [];
  const quotesMessage = `text that contains ": " needs quotes: "${valueAt(text, offset)}"`;
  if (key === undefined || !findOpenBracket(text, offset)) return { offset, message: quotesMessage };
  const keyOffset = offset + value.length - key.length - 1;
  return value.includes('\n')
    ? { offset: keyOffset, message: `missing comma before "${key}"` }
    : {
        offset: keyOffset,
        message: `missing comma before "${key}", or text that contains ": " needs quotes`,
      };
}

/** A bracket or quote that is still open at an offset. */
interface OpenBracket {
  readonly offset: number;
  readonly sign: string;
  /** The first comment inside the brackets. */
  comment?: string;
}

/** Control characters that the lexer uses as separate tokens. */
const marks = new Set<string>([CST.DOCUMENT, CST.FLOW_END, CST.SCALAR]);

/** Returns the innermost bracket or quote that is still open at an offset, if any. */
function findOpenBracket(text: string, end: number): OpenBracket | undefined {
  const open: OpenBracket[] = [];
  let offset = 0;
  for (const token of new Lexer().lex(text)) {
    if (marks.has(token) && text[offset] !== token) continue;
    if (offset >= end) break;
    const [sign = ''] = token;
    const inner = open.at(-1);
    if (token === '{' || token === '[') open.push({ offset, sign });
    else if (token === '}' || token === ']') open.pop();
    else if (sign === '#' && inner !== undefined) inner.comment ??= token;
    else if ((sign === '"' || sign === "'") && offset + token.length >= end && !isClosed(token)) {
      open.push({ offset, sign });
    }
    offset += token.length;
  }
  return open.at(-1);
}

const isClosed = (token: string): boolean =>
  token.startsWith("'")
    ? /^'(?:[^']|'')*'$/.test(token.trimEnd())
    : /^"(?:[^"\\]|\\[\s\S])*"$/.test(token.trimEnd());

/** Describes errors with brackets, quotes and commas. Returns undefined for other errors. */
function bracketIssue(text: string, offset: number, message: string): SyntaxIssue | undefined {
  const isEnd = /^Unexpected flow-\w+-end/.test(message);
  const open = findOpenBracket(text, offset);
  if (isEnd && open === undefined) {
    return { offset, message: `"${text[offset]}" has no matching opening bracket. Remove it.` };
  }
  if (/^Missing closing/.test(message) && open !== undefined) {
    return { offset: open.offset, message: `the quote (${open.sign}) opened here is never closed` };
  }
  const value = valueAt(text, offset);
  if (/^(Unexpected (scalar|\w+-quoted-scalar)|Missing ,)/.test(message)) {
    const before = text.slice(0, offset).match(/["']\s*$/)?.[0] ?? '';
    if (open !== undefined && (before === '' || before.length > 1)) {
      return { offset, message: `missing comma before ${/^["']/.test(value) ? value : `"${value}"`}` };
    }
    const advice = before.startsWith("'")
      ? "Write an apostrophe in single quotes twice ('')."
      : 'Write a quote in double quotes as \\".';
    return { offset, message: `unexpected text after the closing quote. ${advice}` };
  }
  if (/^Unexpected flow-\w+-start/.test(message)) {
    return { offset, message: `text that contains "${text[offset]}" needs quotes here` };
  }
  if (open === undefined || !/^Flow (map|sequence)/.test(message)) return undefined;
  const line = text.lastIndexOf('\n', offset - 1) + 1;
  if (/^ *\t/.test(text.slice(line, offset + 1))) return { offset: line, message: tabMessage };
  const end = open.sign === '{' ? '}' : ']';
  return {
    offset: open.offset,
    message: open.comment?.includes(end)
      ? `"${open.sign}" is not closed, because everything after # is a comment. Text that contains # needs quotes.`
      : `"${open.sign}" is never closed. Add "${end}".`,
  };
}

/** Describes wrong indentation or a missing colon. Returns undefined for other errors. */
function lineIssue(text: string, offset: number, code: string): SyntaxIssue | undefined {
  const [indentation = ''] = /^ */.exec(text.slice(offset)) ?? [];
  const lineStart = offset + indentation.length;
  const line = text.slice(lineStart).split('\n', 1)[0]?.trimEnd() ?? '';
  if (code === 'BAD_INDENT') {
    return {
      offset: lineStart,
      message: 'inconsistent indentation. Keys of the same map must start in the same column.',
    };
  }
  if (code === 'MULTILINE_IMPLICIT_KEY' || code === 'MISSING_CHAR') {
    if (line.startsWith('- ')) return colonIssue(text, lineStart);
    return { offset: lineStart, message: `missing colon: "${shorten(line)}" must be "key: value"` };
  }
  return undefined;
}
