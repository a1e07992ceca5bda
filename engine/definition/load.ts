import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { type Document, isMap, isNode, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import { UserError } from '../errors.ts';

/** A YAML text and the name to show for it. */
export interface Source {
  readonly file: string;
  readonly text: string;
}

/** A mistake in a YAML file. */
export interface Problem {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  /** 1-based. */
  readonly column: number;
  readonly message: string;
}

/** All mistakes found, one per line as `file:line:column  message`. */
export class DefinitionError extends UserError {
  constructor(readonly problems: readonly Problem[]) {
    super(problems.map((p) => `${p.file}:${p.line}:${p.column}  ${p.message}`).join('\n'));
  }
}

/** A path into a YAML document; a key itself (not its value) is meant when `key` is set. */
export interface Target {
  readonly path: readonly (string | number)[];
  readonly key?: boolean;
}

/** A parsed YAML file that can tell where each of its parts stands. */
export interface Parsed {
  readonly file: string;
  readonly data: unknown;
  readonly problem: (target: Target, message: string) => Problem;
}

const maxBytes = 1024 * 1024;

/**
 * Reads every `*.yaml` of a folder, by name.
 * @throws UserError when the folder cannot be read or a file is larger than 1 MiB
 */
export async function readSources(folder: string): Promise<Source[]> {
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    throw new UserError(`cannot read the folder ${folder}: ${cause.code}`);
  });
  const files = names.filter((name) => /\.ya?ml$/.test(name)).sort();
  return Promise.all(
    files.map(async (name) => {
      const path = join(folder, name);
      if ((await stat(path)).size > maxBytes) throw new UserError(`${path} is larger than 1 MiB`);
      return { file: relative(process.cwd(), path) || path, text: await readFile(path, 'utf8') };
    }),
  );
}

/** The file's name without folder and ending. */
export const stem = (file: string): string => basename(file).replace(/\.ya?ml$/, '');

/** Parses YAML 1.2 without aliases, tags or duplicate keys. Syntax mistakes are collected into `problems`. */
export function parseYaml(source: Source, problems: Problem[]): Parsed | undefined {
  const lines = new LineCounter();
  const document = parseDocument(source.text, { lineCounter: lines, uniqueKeys: true, prettyErrors: false });
  const at = (offset: number, message: string): Problem => {
    const { line, col } = lines.linePos(offset);
    return { file: source.file, line: Math.max(line, 1), column: Math.max(col, 1), message };
  };
  const mistakes = [...document.errors, ...document.warnings];
  if (mistakes.length > 0) {
    problems.push(...mistakes.map((mistake) => at(mistake.pos[0], mistake.message)));
    return undefined;
  }
  try {
    const data: unknown = document.toJS({ maxAliasCount: 0 });
    return {
      file: source.file,
      data,
      problem: (target, message) => at(offsetOf(document, target), message),
    };
  } catch {
    problems.push(at(0, 'aliases (*name) are not allowed'));
    return undefined;
  }
}

/** Where a part stands: the nearest node that exists on its path. */
function offsetOf(document: Document, { path, key }: Target): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const [depth, step] of path.entries()) {
    const last = depth === path.length - 1;
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && item.key.value === step);
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
