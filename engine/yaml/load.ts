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
import { findSyntaxIssues, type SyntaxIssue, tooDeep } from './syntax.ts';

/** A YAML text and the name to show for it. */
export interface Source {
  readonly file: string;
  readonly text: string;
  /** Why it has no text that can be read. */
  readonly problem?: YamlIssue;
  /** Whether it comes with the engine, and belongs to nobody who edits files. */
  readonly isShipped?: boolean;
}

/** A mistake in a YAML file. */
export interface YamlIssue {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  /** 1-based. */
  readonly column: number;
  readonly message: string;
}

/** A mistake as one line. */
export const lineOf = ({ file, line, column, message }: YamlIssue): string =>
  `${file}:${line}:${column}  ${message}`;

/** All mistakes found in YAML files, one per line as `file:line:column  message`. */
export class YamlError extends UserError {
  readonly problems: readonly YamlIssue[];
  constructor(problems: readonly YamlIssue[]) {
    super(problems.map(lineOf).join('\n'));
    this.problems = problems;
  }
}

/** Mistakes in the order of the given files, and by position within each. */
export function sortIssues(problems: readonly YamlIssue[], files: readonly string[] = []): YamlIssue[] {
  const place = new Map(files.map((file, index) => [file, index]));
  const of = ({ file }: YamlIssue) => place.get(file) ?? 0;
  return problems.toSorted((a, b) => of(a) - of(b) || a.line - b.line || a.column - b.column);
}

/** A path into a YAML document; a key itself (not its value) is meant when `key` is set. */
export interface Target {
  readonly path: readonly (string | number)[];
  readonly key?: boolean;
}

/** A parsed YAML file that knows the position of each of its parts. */
export interface Parsed {
  readonly file: string;
  readonly data: unknown;
  readonly problem: (target: Target, message: string) => YamlIssue;
}

/** The first few show what a file with very many has. */
const maxMistakes = 10;

/** Parses YAML 1.2 without aliases, tags or duplicate keys. Syntax mistakes are collected into `problems`. */
export function parseYaml(source: Source, problems: YamlIssue[]): Parsed | undefined {
  if (source.problem !== undefined) {
    problems.push(source.problem);
    return undefined;
  }
  const lines = new LineCounter();
  const at = (offset: number, message: string): YamlIssue => {
    const { line, col } = lines.linePos(offset);
    return { file: source.file, line: Math.max(line, 1), column: Math.max(col, 1), message };
  };
  try {
    const document = parseDocument(source.text, {
      lineCounter: lines,
      uniqueKeys: true,
      prettyErrors: false,
    });
    const mistakes = findSyntaxIssues(source.text, document);
    if (mistakes.length === 0) mistakes.push(...aliases(document));
    if (mistakes.length > 0) {
      problems.push(...mistakes.slice(0, maxMistakes).map(({ offset, message }) => at(offset, message)));
      return undefined;
    }
    return {
      file: source.file,
      data: document.toJS({ maxAliasCount: 0 }) as unknown,
      problem: (target, message) => at(offsetOf(document, target), message),
    };
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    problems.push(at(0, tooDeep));
    return undefined;
  }
}

/** Aliases are refused: a few nodes could expand to very many. */
function aliases(document: Document): SyntaxIssue[] {
  const found: SyntaxIssue[] = [];
  visit(document, {
    Alias: (_key, { range, source }) => {
      const message = `aliases (*${source}) are not allowed; a text that begins with "*" needs quotes`;
      found.push({ offset: range?.[0] ?? 0, message });
    },
  });
  return found;
}

const pairs = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();

/** The pairs of a map by their keys; each of thousands of fields is looked up. */
function pairsOf(map: YAMLMap): ReadonlyMap<string, Pair> {
  const known = pairs.get(map);
  if (known !== undefined) return known;
  const found = new Map(
    map.items.flatMap((item) => (isScalar(item.key) ? [[String(item.key.value), item] as const] : [])),
  );
  pairs.set(map, found);
  return found;
}

/** The position of a part: the nearest node that exists on its path. */
function offsetOf(document: Document, { path, key }: Target): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const [depth, step] of path.entries()) {
    const last = depth === path.length - 1;
    if (isMap(node)) {
      const pair = pairsOf(node).get(String(step));
      if (pair === undefined) break;
      const keyNode = pair.key as Node;
      offset = keyNode.range?.[0] ?? offset;
      if (last && key) break;
      node = pair.value;
    } else {
      node = (node as { items?: unknown[] } | null)?.items?.[Number(step)];
    }
    if (isNode(node)) offset = node.range?.[0] ?? offset;
  }
  return offset;
}

/** Whether data has something at a path. */
export function hasPath(data: unknown, path: readonly (string | number)[]): boolean {
  let value = data;
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return false;
    value = (value as Readonly<Record<string | number, unknown>>)[step];
  }
  return true;
}
