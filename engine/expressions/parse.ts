import { type ASTNode, Environment, ParseError } from '@marcbachmann/cel-js';

/** A node of the parsed expression. Its operands are nodes with offsets in the source. */
export type Node = ASTNode;

/** Maximum length of an expression in UTF-16 code units. */
const maxLength = 1000;
/** Maximum nesting of parentheses, lists and calls. */
const maxDepth = 20;
/** Maximum number of items in a list. */
export const maxItems = 200;

/** The parser. It counts the outermost expression as a level, and its other limits exceed the source's limit. */
const environment = new Environment({
  limits: { maxDepth: maxDepth + 1, maxAstNodes: 2 * maxLength, maxListElements: maxItems },
});

/** Reports an issue at an offset in the source. */
export type Report = (offset: number, message: string) => void;

/** Parses an expression in the Common Expression Language. Returns undefined after reporting a syntax error. */
export function parse(source: string, report: Report): Node | undefined {
  if (source.length > maxLength) {
    report(maxLength, `an expression can have at most ${maxLength} characters`);
    return undefined;
  }
  try {
    return environment.parse(source).ast;
  } catch (cause) {
    if (!(cause instanceof ParseError)) throw cause;
    const offset = cause.range?.start ?? 0;
    const issue = describe(source, offset, cause);
    report(issue.offset, issue.message);
    return undefined;
  }
}

/** An issue and its offset in the source. */
interface SyntaxIssue {
  readonly offset: number;
  readonly message: string;
}

/** Words and signs of SQL and other languages, with the operators that replace them. */
const replacements: ReadonlyMap<string, string> = new Map([
  ['and', '&&'],
  ['or', '||'],
  ['not', '!'],
  ['is', '=='],
  ['&', '&&'],
  ['|', '||'],
  ['=', '=='],
  ['===', '=='],
  ['!==', '!='],
  ['<>', '!='],
  ['=<', '<='],
  ['=>', '>='],
]);

const words = /[A-Za-z_]\w*|[=<>!&|]+/g;

/** Returns the foreign word or sign that contains an offset or directly precedes it. */
function foreignWord(source: string, offset: number): SyntaxIssue | undefined {
  for (const { 0: word, index } of source.matchAll(words)) {
    const end = index + word.length;
    const isNear = index <= offset && source.slice(end, offset).trim() === '';
    const replacement = replacements.get(word.toLowerCase());
    if (isNear && replacement !== undefined)
      return { offset: index, message: `write "${replacement}" instead of "${word}"` };
  }
  return undefined;
}

/** Converts a parser error to an issue with a more helpful message. */
function describe(source: string, offset: number, { code, summary }: ParseError): SyntaxIssue {
  const rest = source.slice(offset);
  const [word = ''] = /^(?:\w+|[^\s\w])/u.exec(rest) ?? [];
  const at = (message: string): SyntaxIssue => ({ offset, message });
  switch (code) {
    case 'limit_exceeded':
      return at(
        summary.includes('maxListElements')
          ? `a list can have at most ${maxItems} items`
          : `an expression can be nested at most ${maxDepth} levels deep`,
      );
    case 'reserved_identifier':
      return at(`"${word}" is a reserved word and cannot be the name of a field in an expression`);
    case 'unterminated_string':
    case 'unterminated_triple_quoted_string':
      return at(`the quote (${word}) opened here is never closed`);
    case 'newline_in_string':
      return at('a text in quotes must be on one line. Write \\n for a line break.');
    case 'invalid_escape_sequence':
    case 'invalid_unicode_escape':
    case 'invalid_unicode_surrogate':
    case 'invalid_hex_escape':
    case 'invalid_octal_escape':
    case 'octal_escape_out_of_range':
      return at(`"${rest.slice(0, 2)}" does not start a valid escape. Write \\\\ for a backslash.`);
    case 'invalid_number':
    case 'invalid_exponent':
    case 'invalid_integer':
    case 'invalid_hex_integer':
      return at('this is not a valid number');
    case 'invalid_macro_argument':
      return at('macros are not supported in expressions');
    default:
      break;
  }
  const foreign = foreignWord(source, offset);
  if (foreign !== undefined) return foreign;
  if (rest.trim() === '') {
    const open = openBracket(source);
    if (open !== undefined)
      return { offset: open.offset, message: `"${source[open.offset]}" is never closed. Add "${open.end}".` };
    return at(
      source.trim() === '' ? 'the expression is empty' : 'the expression is incomplete. A value is missing.',
    );
  }
  return at(`unexpected "${word}"`);
}

const closingBrackets: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** Returns the innermost bracket that is never closed, and the bracket that would close it. */
function openBracket(source: string): { readonly offset: number; readonly end: string } | undefined {
  const open: { readonly offset: number; readonly end: string }[] = [];
  for (const { 0: token, index } of source.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[()[\]{}]/g)) {
    const end = closingBrackets[token];
    if (end !== undefined) open.push({ offset: index, end });
    else if (token === open.at(-1)?.end) open.pop();
  }
  return open.at(-1);
}
