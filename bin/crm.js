#!/usr/bin/env node
// Runs the command line on the Node that this package depends on, whichever started this file.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const child = spawn(
  require.resolve('node/bin/node'),
  [
    '--import',
    import.meta.resolve('tsx'),
    fileURLToPath(new URL('../engine/cli/index.ts', import.meta.url)),
    ...process.argv.slice(2),
  ],
  { stdio: 'inherit' },
);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === null ? 1 : 128);
});
