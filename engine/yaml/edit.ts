import { isMap, isNode, isScalar, isSeq, type Node, parseDocument, type YAMLMap } from 'yaml';

/** A node's end offset, and its indentation in spaces. */
interface NodeEnd {
  readonly end: number;
  readonly indentation: number;
}

/**
 * Appends an entry to a top-level map in a YAML file. The rest of the file, including whitespace, is
 * unchanged.
 * @param entry a single line of YAML
 */
export function withEntry(text: string, section: string, key: string, entry: string): string {
  const line = `${key}: ${entry}`;
  const value = sectionOf(text, section);
  if (value === undefined) return append(text, `${section}:`, `  ${line}`);
  if (!isMap(value)) return insertAfterLine(text, { end: endOf(value), indentation: 2 }, line);
  const last = value.items.at(-1);
  const lastNode = isNode(last?.value) ? last.value : (last?.key as Node | undefined);
  if (value.flow) return insertInBrackets(text, value, lastNode, line);
  const start = value.range?.[0] ?? 0;
  return insertAfterLine(
    text,
    { end: lastNode === undefined ? start : endOf(lastNode), indentation: column(text, start) },
    line,
  );
}

/** Appends an item to a top-level list, which is created if it is missing. See {@link withEntry}. */
export function withItem(text: string, section: string, item: string): string {
  const value = sectionOf(text, section);
  if (value === undefined) return append(text, `${section}: [${item}]`);
  if (!isSeq(value)) return text;
  const last = value.items.at(-1) as Node | undefined;
  if (value.flow || last === undefined) return insertInBrackets(text, value, last, item);
  return insertAfterLine(
    text,
    { end: endOf(last), indentation: column(text, value.range?.[0] ?? 0) },
    `- ${item}`,
  );
}

/** Returns a file's text with other values of some top-level keys. */
export function withSections(text: string, sections: Readonly<Record<string, unknown>>): string {
  const document = parseDocument(text);
  for (const [name, value] of Object.entries(sections)) document.set(name, value);
  return document.toString();
}

/** Returns the value of a top-level key, or undefined if it is missing. */
function sectionOf(text: string, section: string): Node | undefined {
  const { contents } = parseDocument(text);
  const pair = (contents as YAMLMap | null)?.items.find(({ key }) => isScalar(key) && key.value === section);
  return isNode(pair?.value) ? pair.value : undefined;
}

const endOf = (node: Node): number => node.range?.[1] ?? 0;
const column = (text: string, offset: number): number => offset - (text.lastIndexOf('\n', offset - 1) + 1);
const endingOf = (text: string): string => (text.includes('\r\n') ? '\r\n' : '\n');

/** Inserts a line after the line on which a node ends. */
function insertAfterLine(text: string, { end, indentation }: NodeEnd, line: string): string {
  const ending = endingOf(text);
  // A multi-line string ends after its line break.
  const lineBreak = text[end - 1] === '\n' ? end - 1 : text.indexOf('\n', end);
  const before = lineBreak === -1 ? `${text}${ending}` : text.slice(0, lineBreak + 1);
  return `${before}${' '.repeat(indentation)}${line}${ending}${lineBreak === -1 ? '' : text.slice(lineBreak + 1)}`;
}

/** Inserts an item before the closing bracket of a list or map in flow style. */
function insertInBrackets(text: string, collection: Node, last: Node | undefined, item: string): string {
  if (last !== undefined) return `${text.slice(0, endOf(last))}, ${item}${text.slice(endOf(last))}`;
  const [start, end] = [collection.range?.[0] ?? 0, endOf(collection)];
  const [open, close] = [text[start], text[end - 1]];
  const space = open === '{' ? ' ' : '';
  return `${text.slice(0, start)}${open}${space}${item}${space}${close}${text.slice(end)}`;
}

function append(text: string, ...lines: readonly string[]): string {
  const ending = endingOf(text);
  const before = text === '' || text.endsWith('\n') ? text : `${text}${ending}`;
  return `${before}${lines.join(ending)}${ending}`;
}
