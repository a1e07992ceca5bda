import { readFile, stat } from 'node:fs/promises';
import { relative } from 'node:path';
import {
  type Document,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  visit,
  type YAMLMap,
} from 'yaml';
import { UserError } from '../errors.ts';
import { scalarOffset } from './scalar.ts';
import { findSyntaxIssues, type SyntaxIssue, tooDeep } from './syntax.ts';

/** YAML text, and the file name to use in messages. */
export interface Source {
  readonly file: string;
  readonly text: string;
  /** The reason the file could not be read. */
  readonly issue?: YamlIssue;
  /** Whether the file is part of the engine, so that instances extend it instead of editing it. */
  readonly isShipped?: boolean;
}

/** An issue in a YAML file. */
export interface YamlIssue {
  readonly file: string;
  /** Line number, starting at 1. */
  readonly line: number;
  /** Column number, starting at 1. */
  readonly column: number;
  readonly message: string;
}

/** Formats an issue as one line. */
export const lineOf = ({ file, line, column, message }: YamlIssue): string =>
  `${file}:${line}:${column}  ${message}`;

/** Reports all issues in YAML files, one per line, as `file:line:column  message`. */
export class YamlError extends UserError {
  readonly issues: readonly YamlIssue[];
  constructor(issues: readonly YamlIssue[]) {
    super(issues.map(lineOf).join('\n'));
    this.issues = issues;
  }
}

/** Sorts issues by file, in the order of `files`, then by position. */
export function sortIssues(issues: readonly YamlIssue[], files: readonly string[] = []): YamlIssue[] {
  const order = new Map(files.map((file, index) => [file, index]));
  const orderOf = ({ file }: YamlIssue) => order.get(file) ?? 0;
  return issues.toSorted((a, b) => orderOf(a) - orderOf(b) || a.line - b.line || a.column - b.column);
}

/** A path into a YAML document. It points to the key instead of its value if `key` is set. */
export interface Target {
  readonly path: readonly (string | number)[];
  readonly key?: boolean;
  /** Offset in the text at the path. */
  readonly offset?: number;
}

/** A parsed YAML file with the position of every node. */
export interface Parsed {
  readonly file: string;
  readonly data: unknown;
  readonly issueAt: (target: Target, message: string) => YamlIssue;
}

/** Maximum number of syntax issues reported per file. */
const maxIssues = 10;

/** Parses YAML 1.2 without aliases, tags or duplicate keys. Adds syntax issues to `issues`. */
export function parseYaml(source: Source, issues: YamlIssue[]): Parsed | undefined {
  if (source.issue !== undefined) {
    issues.push(source.issue);
    return undefined;
  }
  const lines = new LineCounter();
  const issueAt = (offset: number, message: string): YamlIssue => {
    const { line, col } = lines.linePos(offset);
    return { file: source.file, line: Math.max(line, 1), column: Math.max(col, 1), message };
  };
  try {
    const document = parseDocument(source.text, {
      lineCounter: lines,
      uniqueKeys: true,
      prettyErrors: false,
    });
    const syntaxIssues = findSyntaxIssues(source.text, document);
    if (syntaxIssues.length === 0) syntaxIssues.push(...aliases(document));
    if (syntaxIssues.length > 0) {
      issues.push(...syntaxIssues.slice(0, maxIssues).map(({ offset, message }) => issueAt(offset, message)));
      return undefined;
    }
    return {
      file: source.file,
      data: document.toJS({ maxAliasCount: 0 }) as unknown,
      issueAt: (target, message) => issueAt(offsetOf(document, target, source.text), message),
    };
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    issues.push(issueAt(0, tooDeep));
    return undefined;
  }
}

/**
 * Returns an issue for each alias. Aliases are rejected because a few of them could expand to a huge number of nodes.
 */
function aliases(document: Document): SyntaxIssue[] {
  const issues: SyntaxIssue[] = [];
  visit(document, {
    Alias: (_key, { range, source }) => {
      const message = `aliases (*${source}) are not allowed. Text that starts with "*" needs quotes.`;
      issues.push({ offset: range?.[0] ?? 0, message });
    },
  });
  return issues;
}

const pairs = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();

/** Returns a map's pairs, indexed by key. The result is cached because files can have thousands of fields. */
function pairsOf(map: YAMLMap): ReadonlyMap<string, Pair> {
  const cached = pairs.get(map);
  if (cached !== undefined) return cached;
  const byKey = new Map(
    map.items.flatMap((item) => (isScalar(item.key) ? [[String(item.key.value), item] as const] : [])),
  );
  pairs.set(map, byKey);
  return byKey;
}

/** Returns the offset of the deepest existing node on a path, or of a character in its text. */
function offsetOf(document: Document, { path, key, offset: textOffset }: Target, text: string): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const [depth, step] of path.entries()) {
    const isLast = depth === path.length - 1;
    if (isMap(node)) {
      const pair = pairsOf(node).get(String(step));
      if (pair === undefined) break;
      const keyNode = pair.key as Node;
      offset = keyNode.range?.[0] ?? offset;
      if (isLast && key) break;
      node = pair.value;
    } else {
      node = (node as { items?: unknown[] } | null)?.items?.[Number(step)];
    }
    if (isNode(node)) offset = node.range?.[0] ?? offset;
  }
  return isScalar(node) && textOffset !== undefined ? scalarOffset(text, node, textOffset) : offset;
}

/** Returns whether the data has a value at a path. */
export function hasPath(data: unknown, path: readonly (string | number)[]): boolean {
  let value = data;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return false;
    value = (value as Readonly<Record<string | number, unknown>>)[step];
  }
  return true;
}

const maxMebibytes = 1;

/**
 * Reads a YAML file. Encoding and size issues are returned in the source, so that issues in other files can
 * also be reported.
 * @throws NodeJS.ErrnoException if the file cannot be read
 */
export async function readYaml(path: string): Promise<Source> {
  const file = relative(process.cwd(), path) || path;
  const unreadable = (message: string, line = 1, column = 1): Source => {
    const issue: YamlIssue = { file, line, column, message };
    return { file, text: '', issue };
  };
  const stats = await stat(path);
  if (!stats.isFile()) throw Object.assign(new Error(), { code: 'EISDIR' });
  if (stats.size > maxMebibytes * 1024 * 1024)
    return unreadable(`the file is larger than ${maxMebibytes} MiB`);
  const bytes = await readFile(path);
  try {
    return { file, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    if (bytes[0] === 0xff || bytes[0] === 0xfe) {
      return unreadable('the file is UTF-16. Save it as UTF-8.');
    }
    // Lenient decoding replaces invalid bytes with U+FFFD. The text before the first one is unaffected.
    const before = bytes.toString('utf8').split('\ufffd', 1)[0] ?? '';
    const lines = before.split('\n');
    return unreadable(
      'invalid UTF-8. Save the file as UTF-8.',
      lines.length,
      (lines.at(-1)?.length ?? 0) + 1,
    );
  }
}
