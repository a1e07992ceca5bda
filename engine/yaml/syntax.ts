import { CST, type Document, isMap, isScalar, Lexer, type YAMLError } from 'yaml';

/** A mistake of syntax: where it begins in the text, and what to do about it. */
export interface SyntaxIssue {
  readonly offset: number;
  readonly message: string;
}

/** Mistakes after which the parser goes on as before; after any other its next errors are guesses. */
const harmless = new Set(['DUPLICATE_KEY', 'TAG_RESOLVE_FAILED', 'BAD_DQ_ESCAPE', 'BAD_SCALAR_START']);

/** What is said of a file that exhausts the parser's stack. */
export const tooDeep = 'the file is nested too deeply';

const tab = 'a tab indents this line: YAML takes spaces only';

/** The mistakes of syntax in a text, in their order, up to the first that makes the rest unreadable. */
export function findSyntaxIssues(text: string, document: Document): SyntaxIssue[] {
  const conflict = /^<{7}(?: |$)/m.exec(text);
  if (conflict !== null) {
    const message =
      'a merge conflict is left here: keep one side, and take out the lines that begin with <<<<<<<, ======= and >>>>>>>';
    return [{ offset: conflict.index, message }];
  }
  const found = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0]);
  const fatal = found.findIndex(({ code }) => !harmless.has(code));
  if (fatal === -1) return found.map((error) => described(text, document, error));
  // Several errors of one place: the one that says most about it.
  const same = found.filter(({ pos }) => pos[0] === found[fatal]?.pos[0]);
  const told = ['BLOCK_IN_FLOW', 'MISSING_CHAR'].flatMap(
    (code) => same.find((error) => error.code === code) ?? [],
  );
  return [...found.slice(0, fatal), told[0] ?? (found[fatal] as YAMLError)].map((error) =>
    described(text, document, error),
  );
}

function described(text: string, document: Document, { code, pos, message }: YAMLError): SyntaxIssue {
  const offset = pos[0];
  const at = (place: number, words: string): SyntaxIssue => ({ offset: place, message: words });
  const word = short(/^[^\s,{}[\]]*/.exec(text.slice(offset))?.[0] ?? '');
  switch (code) {
    case 'DUPLICATE_KEY':
      return at(offset, duplicate(text, document, offset));
    case 'TAB_AS_INDENT':
      return at(offset, tab);
    case 'MULTIPLE_DOCS':
      return at(offset, 'a second document begins here: a file holds one, so take this line out');
    case 'BAD_SCALAR_START':
      return at(offset, `a text that begins with "${text[offset]}" needs quotes: "${valueAt(text, offset)}"`);
    case 'TAG_RESOLVE_FAILED':
      return at(offset, `tags (${word}) are not allowed; a text that begins with "!" needs quotes`);
    case 'BAD_DQ_ESCAPE': {
      const sign = text.slice(offset, offset + 2);
      return at(offset, `${sign} means nothing in double quotes: write \\${sign}, or use single quotes`);
    }
    case 'BLOCK_IN_FLOW':
    case 'BLOCK_AS_IMPLICIT_KEY':
      return colon(text, offset);
    case 'RESOURCE_EXHAUSTION':
      return at(offset, tooDeep);
    default:
      return /call stack/i.test(message)
        ? at(offset, tooDeep)
        : (brackets(text, offset, message) ??
            lineMistake(text, offset, code) ??
            at(offset, `this is no YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`));
  }
}

/** Text as a message may repeat it. */
const short = (text: string): string => (text.length > 40 ? `${text.slice(0, 39)}…` : text);

/** The rest of a value on its line, without what ends it. */
const valueAt = (text: string, offset: number): string =>
  short(/^[^\n,}\]]*/.exec(text.slice(offset))?.[0].trimEnd() ?? '');

/** A key that is given again, and where it was before. */
function duplicate(text: string, document: Document, offset: number): string {
  const left: unknown[] = [document.contents];
  while (left.length > 0) {
    const node = left.pop();
    const items = (node as { items?: readonly { key?: unknown; value?: unknown }[] } | null)?.items ?? [];
    if (isMap(node)) {
      const keys = node.items.map(({ key }) => key).filter(isScalar);
      const key = keys.find(({ range }) => range?.[0] === offset);
      const first = keys.find(({ value }) => key !== undefined && value === key.value);
      if (key !== undefined && first?.range) {
        return `"${short(String(key.value))}" is given twice: it is in line ${lineOf(text, first.range[0])} already`;
      }
    }
    for (const item of items) left.push(item.value ?? item);
  }
  return 'this key is given twice';
}

const lineOf = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

/** ": " where none may be: a comma is missing before a key, or a text needs quotes. */
function colon(text: string, begin: number): SyntaxIssue {
  const offset = begin + (/^ */.exec(text.slice(begin))?.[0].length ?? 0);
  if (text.slice(offset, offset + 2) === '- ') {
    return { offset, message: 'a list item ("- ") is here, where a key and its value are expected' };
  }
  const [value = ''] = /^[^,{}[\]]*?:(?=\s|$)/.exec(text.slice(offset)) ?? [];
  const [, key] = /\s([\w-]+):$/.exec(value) ?? [];
  const quoted = `a text that contains ": " needs quotes: "${valueAt(text, offset)}"`;
  if (key === undefined || !openBracket(text, offset)) return { offset, message: quoted };
  const place = offset + value.length - key.length - 1;
  return value.includes('\n')
    ? { offset: place, message: `a comma is missing before "${key}"` }
    : {
        offset: place,
        message: `a comma is missing before "${key}", or a text that contains ": " needs quotes`,
      };
}

/** The bracket or quote that is open at a place of a text. */
interface Opened {
  readonly offset: number;
  readonly sign: string;
  /** The first comment within it. */
  comment?: string;
}

/** The lexer marks where scalars and documents begin by signs that are not in the text. */
const marks = new Set<string>([CST.DOCUMENT, CST.FLOW_END, CST.SCALAR]);

/** The innermost bracket, or the quote, that is open at a place; undefined if none is. */
function openBracket(text: string, end: number): Opened | undefined {
  const open: Opened[] = [];
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

/** Mistakes with brackets, quotes and commas between them; undefined for others. */
function brackets(text: string, offset: number, message: string): SyntaxIssue | undefined {
  const isEnd = /^Unexpected flow-\w+-end/.test(message);
  const open = openBracket(text, offset);
  if (isEnd && open === undefined) {
    return { offset, message: `"${text[offset]}" closes nothing: take it out` };
  }
  if (/^Missing closing/.test(message) && open !== undefined) {
    return { offset: open.offset, message: `a quote (${open.sign}) is opened here and never closed` };
  }
  const value = valueAt(text, offset);
  if (/^(Unexpected (scalar|\w+-quoted-scalar)|Missing ,)/.test(message)) {
    const before = text.slice(0, offset).match(/["']\s*$/)?.[0] ?? '';
    if (open !== undefined && (before === '' || before.length > 1)) {
      return { offset, message: `a comma is missing before ${/^["']/.test(value) ? value : `"${value}"`}` };
    }
    const advice = before.startsWith("'")
      ? "an apostrophe in single quotes is written twice ('')"
      : 'a quote in double quotes is written \\"';
    return { offset, message: `text follows the closing quote: ${advice}` };
  }
  if (/^Unexpected flow-\w+-start/.test(message)) {
    return { offset, message: `a text that contains "${text[offset]}" needs quotes here` };
  }
  if (open === undefined || !/^Flow (map|sequence)/.test(message)) return undefined;
  const line = text.lastIndexOf('\n', offset - 1) + 1;
  if (/^ *\t/.test(text.slice(line, offset + 1))) return { offset: line, message: tab };
  const end = open.sign === '{' ? '}' : ']';
  return {
    offset: open.offset,
    message: open.comment?.includes(end)
      ? `"${open.sign}" is not closed: what follows # is a comment, so a text that contains it needs quotes`
      : `"${open.sign}" is not closed: "${end}" is missing`,
  };
}

/** A line that is not where it belongs, or no `key: value`; undefined for other mistakes. */
function lineMistake(text: string, offset: number, code: string): SyntaxIssue | undefined {
  const [indentation = ''] = /^ */.exec(text.slice(offset)) ?? [];
  const place = offset + indentation.length;
  const line = text.slice(place).split('\n', 1)[0]?.trimEnd() ?? '';
  if (code === 'BAD_INDENT') {
    return {
      offset: place,
      message:
        'this line is indented otherwise than those next to it: keys that belong together begin in one column',
    };
  }
  if (code === 'MULTILINE_IMPLICIT_KEY' || code === 'MISSING_CHAR') {
    if (line.startsWith('- ')) return colon(text, place);
    return { offset: place, message: `a colon and a space are missing: "${short(line)}" is no key: value` };
  }
  return undefined;
}
