// Test support: a client as its users receive it, packed and installed next to a program.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { project } from './process.ts';

/** Compilers by version. The generators' compiler is available only if their packages are installed. */
export const compilers: readonly (readonly [version: string, path: string])[] = [
  ['7', join(project, 'node_modules/typescript')],
  ['5.9', join(project, 'test/clients/node_modules/typescript')],
];

/** Every strict option that users might enable. */
const compilerOptions = {
  target: 'es2023',
  lib: ['es2023', 'dom', 'dom.iterable'],
  module: 'nodenext',
  types: [],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  verbatimModuleSyntax: true,
  erasableSyntaxOnly: true,
  outDir: 'compiled',
  rootDir: '.',
};

/** A folder with the packed client in node_modules. */
export interface Installed {
  readonly folder: string;
  /** The package's files. */
  readonly files: readonly string[];
  /** Writes programs and compiles them with each available compiler into the `compiled` folder. */
  readonly compile: (programs: Readonly<Record<string, string>>) => Promise<void>;
  readonly remove: () => void;
}

/**
 * Runs a program.
 * @returns its output
 * @throws an error with its output if it fails
 */
export async function runProgram(cwd: string, program: string, ...args: readonly string[]): Promise<string> {
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`;
  const { stdout } = await promisify(execFile)(program, args, { cwd, env: { ...process.env, PATH } }).catch(
    ({ message, stdout = '', stderr = '' }) => assert.fail(`${message}\n${stdout}${stderr}`),
  );
  return stdout;
}

/** Packs the client with npm, as its author would, and installs it in a folder. */
export async function install(client: string): Promise<Installed> {
  const cache = join(project, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  // Within the project, so that the client's build script finds a compiler.
  const folder = mkdtempSync(join(cache, 'client-'));
  const source = join(folder, 'source');
  cpSync(client, source, { recursive: true });
  const [packed] = JSON.parse(
    await runProgram(source, 'npm', 'pack', '--json', '--pack-destination', folder),
  ) as [
    {
      readonly filename: string;
      readonly name: string;
      readonly files: readonly { readonly path: string }[];
    },
  ];
  await runProgram(folder, 'tar', '-xf', packed.filename);
  const target = join(folder, 'node_modules', packed.name);
  mkdirSync(dirname(target), { recursive: true });
  renameSync(join(folder, 'package'), target);
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  return {
    folder,
    files: packed.files.map(({ path }) => path).sort(),
    compile: async (programs) => {
      for (const [name, text] of Object.entries(programs)) writeFileSync(join(folder, name), text);
      writeFileSync(
        join(folder, 'tsconfig.json'),
        JSON.stringify({ compilerOptions, files: Object.keys(programs) }),
      );
      for (const [, path] of compilers.filter(([, each]) => existsSync(each)))
        await runProgram(folder, process.execPath, join(path, 'bin/tsc'), '-p', '.');
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
