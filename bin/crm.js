#!/usr/bin/env node
// Runs the command line on the Node that this package depends on, whichever started this file.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const system = process.platform === 'win32' ? 'win' : process.platform;
const packages = [`node-${system}-${process.arch}`, `node-bin-${system}-${process.arch}`];

/** The Node.js binary for this platform, or the one running this file if it is not installed (`npm ci --omit=optional`). */
function findNode() {
  for (const name of packages) {
    try {
      const manifest = require.resolve(`${name}/package.json`);
      return join(dirname(manifest), require(manifest).bin.node);
    } catch {}
  }
  return process.execPath;
}

/** A packed package holds JavaScript, because Node does not run TypeScript that is installed; a clone holds the source. */
const [built, source] = ['../dist/app/main.js', '../app/main.ts'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);
const main = existsSync(built) ? built : source;

/** Where Node keeps compiled code, which halves the time of a start; where it may not write, it keeps none. */
const cache = fileURLToPath(new URL('../.cache/node', import.meta.url));

const child = spawn(findNode(), ['--max-semi-space-size=16', main, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { NODE_COMPILE_CACHE: cache, ...process.env },
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === null ? 1 : 128);
});
