// Test support: the command line in a few files instead of more than a thousand modules. Hundreds of processes start
// during a run, and each spends most of its CPU time on loading modules.
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';

const project = fileURLToPath(new URL('../..', import.meta.url));
const commandLine = join(project, 'app/main.ts');

/**
 * Packages outside the bundle: those that load files of their own folder, optional ones that are not installed, and
 * those imported dynamically, whose named exports a bundle loses if they are CommonJS.
 */
const external = [
  'argon2',
  '@electric-sql/pglite',
  'rate-limiter-flexible',
  'pg-native',
  '@simplewebauthn/*',
  '@zxcvbn-ts/*',
  'csv-stringify',
  'fastify',
  'nodemailer',
  'openid-client',
];

const migrations = '@mikro-orm/migrations';
const source = JSON.stringify(pathToFileURL(commandLine));
/**
 * Starts the command line. Packages outside the bundle are resolved as in the source, and migrations, which are
 * loaded by path, get the bundle's copy of MikroORM.
 */
const start = `
  import { registerHooks } from 'node:module';
  const folder = new URL('.', import.meta.url).href;
  registerHooks({
    resolve: (name, context, next) =>
      name === '${migrations}'
        ? { url: folder + 'migrations.mjs', format: 'module', shortCircuit: true }
        : next(name, context.parentURL?.startsWith(folder) && !name.startsWith('.') ? { ...context, parentURL: ${source} } : context),
  });
  await import('./command-line.mjs');
`;

/** Resolves a module's own location to the location of its source, so that it finds the files next to it. */
const sourceLocations: Plugin = {
  name: 'source locations',
  setup: ({ onLoad }) => {
    onLoad({ filter: /\.(?:ts|m?js)$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      if (!text.includes('import.meta.')) return undefined;
      const contents = text
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path)))
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.filename', JSON.stringify(path));
      return { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' };
    });
  },
};

/**
 * Bundles the command line.
 * @param folder an empty folder
 * @returns the path of the program
 */
export async function bundleCommandLine(folder: string): Promise<string> {
  await build({
    entryPoints: {
      'command-line': commandLine,
      migrations: createRequire(import.meta.url).resolve(migrations),
    },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    external,
    // CommonJS packages require the modules of Node.js.
    banner: {
      js: `import { createRequire as makeRequire } from 'node:module'; const require = makeRequire(${source});`,
    },
    logLevel: 'error',
    plugins: [sourceLocations],
  });
  const program = join(folder, 'main.mjs');
  await writeFile(program, start);
  return program;
}
