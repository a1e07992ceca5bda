// Runs the tests: one PostgreSQL server for all of them, node:test for each file.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPostgres } from './support/postgres.ts';

const files = process.argv.length > 2 ? process.argv.slice(2) : globSync('test/**/*.test.ts').sort();
const server = await startPostgres();
// Three files at a time, for many of them wait for other processes: each has a service and databases of its own.
const runner = spawn(
  process.execPath,
  ['--import', 'tsx', '--test', '--test-concurrency=3', '--test-timeout=300000', ...files],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      TEST_POSTGRES_URL: server.url,
      NODE_COMPILE_CACHE: join(tmpdir(), 'crm-compiled'),
    },
  },
);
const [code] = await once(runner, 'exit');
await server.stop();
process.exitCode = code ?? 1;
