// Reads the import graph from the source, including type-only imports.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseSync } from 'oxc-parser';

const project = join(import.meta.dirname, '../..');

/** Project files and the project files that each imports. Paths are relative to the project root. */
export type Imports = ReadonlyMap<string, readonly string[]>;

/**
 * Reads the imports of TypeScript files.
 * @param folders the folders to read, relative to the project root
 */
export function readImports(...folders: readonly string[]): Imports {
  const files = folders.flatMap((folder) =>
    readdirSync(join(project, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts') && !name.startsWith('clients/'))
      .map((name) => `${folder}/${name}`),
  );
  return new Map(files.sort().map((file) => [file, importsOf(file)]));
}

function importsOf(file: string): readonly string[] {
  const source = readFileSync(join(project, file), 'utf8');
  const { module, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file} cannot be parsed`);
  const named = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.map(({ moduleRequest }) => moduleRequest?.value),
    ),
    ...module.dynamicImports.map(({ moduleRequest: { start, end } }) => source.slice(start + 1, end - 1)),
  ];
  const relative = named.filter((name) => name?.startsWith('.') === true) as string[];
  return [...new Set(relative)].map((name) => normalize(join(dirname(file), name)));
}

/** Returns the cycles in a graph, each as a list of nodes that starts and ends with the same node. */
export function circles(arrows: ReadonlyMap<string, Iterable<string>>): readonly (readonly string[])[] {
  const found: string[][] = [];
  const done = new Set<string>();
  const walk = (node: string, path: readonly string[]): void => {
    const at = path.indexOf(node);
    if (at >= 0) {
      found.push([...path.slice(at), node]);
      return;
    }
    if (done.has(node)) return;
    for (const next of arrows.get(node) ?? []) walk(next, [...path, node]);
    done.add(node);
  };
  for (const node of arrows.keys()) walk(node, []);
  return found;
}
