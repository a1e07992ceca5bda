import { isMap, isNode, isScalar, isSeq, type Node, parseDocument, type YAMLMap } from 'yaml';

/** Where a part of a file ends, and how many spaces are before it. */
interface Last {
  readonly end: number;
  readonly indentation: number;
}

/**
 * Adds an entry to a map at the top of a YAML file, after the last one. All else stays as it is, to the last space.
 * @param entry in YAML, in one line
 */
export function withEntry(text: string, section: string, key: string, entry: string): string {
  const line = `${key}: ${entry}`;
  const value = sectionOf(text, section);
  if (value === undefined) return appended(text, `${section}:`, `  ${line}`);
  if (!isMap(value)) return afterLine(text, { end: endOf(value), indentation: 2 }, line);
  const last = value.items.at(-1);
  const part = isNode(last?.value) ? last.value : (last?.key as Node | undefined);
  if (value.flow) return inBrackets(text, value, part, line);
  const start = value.range?.[0] ?? 0;
  return afterLine(
    text,
    { end: part === undefined ? start : endOf(part), indentation: column(text, start) },
    line,
  );
}

/** Adds an item to a list at the top of a YAML file, as {@link withEntry}; makes the list where there is none. */
export function withItem(text: string, section: string, item: string): string {
  const value = sectionOf(text, section);
  if (value === undefined) return appended(text, `${section}: [${item}]`);
  if (!isSeq(value)) return text;
  const last = value.items.at(-1) as Node | undefined;
  if (value.flow || last === undefined) return inBrackets(text, value, last, item);
  return afterLine(text, { end: endOf(last), indentation: column(text, value.range?.[0] ?? 0) }, `- ${item}`);
}

/** The value of a key at the top; undefined where there is none. */
function sectionOf(text: string, section: string): Node | undefined {
  const { contents } = parseDocument(text);
  const pair = (contents as YAMLMap | null)?.items.find(({ key }) => isScalar(key) && key.value === section);
  return isNode(pair?.value) ? pair.value : undefined;
}

const endOf = (node: Node): number => node.range?.[1] ?? 0;
const column = (text: string, offset: number): number => offset - (text.lastIndexOf('\n', offset - 1) + 1);
const endingOf = (text: string): string => (text.includes('\r\n') ? '\r\n' : '\n');

/** A line of its own after that in which a part ends. */
function afterLine(text: string, { end, indentation }: Last, line: string): string {
  const ending = endingOf(text);
  // Texts of several lines end with the line.
  const at = text[end - 1] === '\n' ? end - 1 : text.indexOf('\n', end);
  const before = at === -1 ? `${text}${ending}` : text.slice(0, at + 1);
  return `${before}${' '.repeat(indentation)}${line}${ending}${at === -1 ? '' : text.slice(at + 1)}`;
}

/** Within the brackets of a list or map that has some. */
function inBrackets(text: string, whole: Node, last: Node | undefined, added: string): string {
  if (last !== undefined) return `${text.slice(0, endOf(last))}, ${added}${text.slice(endOf(last))}`;
  const [start, end] = [whole.range?.[0] ?? 0, endOf(whole)];
  const [open, close] = [text[start], text[end - 1]];
  const space = open === '{' ? ' ' : '';
  return `${text.slice(0, start)}${open}${space}${added}${space}${close}${text.slice(end)}`;
}

function appended(text: string, ...lines: readonly string[]): string {
  const ending = endingOf(text);
  const before = text === '' || text.endsWith('\n') ? text : `${text}${ending}`;
  return `${before}${lines.join(ending)}${ending}`;
}
