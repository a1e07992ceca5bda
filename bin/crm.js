#!/usr/bin/env node
// Runs the command line with the Node.js version that this package depends on.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const system = process.platform === 'win32' ? 'win' : process.platform;
const packages = [`node-${system}-${process.arch}`, `node-bin-${system}-${process.arch}`];

/** Returns the installed Node.js binary for this platform, or the running one after `npm ci --omit=optional`. */
function findNode() {
  for (const name of packages) {
    try {
      const manifest = require.resolve(`${name}/package.json`);
      return join(dirname(manifest), require(manifest).bin.node);
    } catch {}
  }
  return process.execPath;
}

/** Entry points of a packed package and of a clone. Node.js does not run TypeScript in node_modules. */
const [compiled, source] = ['../dist/app/main.js', '../app/main.ts'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);
const main = existsSync(compiled) ? compiled : source;

/** Folder of Node's compile cache, which halves the start time. Node ignores it if it is not writable. */
const cache = fileURLToPath(new URL('../.cache/node', import.meta.url));

const child = spawn(findNode(), ['--max-semi-space-size=16', main, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { NODE_COMPILE_CACHE: cache, ...process.env },
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === null ? 1 : 128);
});
