// Failures of the machine are named: what is wrong with the data folder, and what to do.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { inherited } from '../support/command-process.ts';
import { temporaryFolder } from '../support/instance.ts';
import { apart, assertRefused, crm, migratedStorage, project } from '../support/process.ts';

test('a lock file that is not one', async () => {
  const temporary = temporaryFolder();
  const folder = join(temporary.path, 'data');
  mkdirSync(join(folder, 'lock'), { recursive: true });
  const begin = `the data folder ${folder} cannot be used: `;
  assertRefused(await crm(['migrate'], { DATA_DIR: folder }), `${begin}its file "lock" is a folder`);
  rmSync(join(folder, 'lock'), { recursive: true });
  writeFileSync(join(folder, 'lock'), 'no database '.repeat(100));
  const foreign = await crm(['migrate'], { DATA_DIR: folder });
  assertRefused(foreign, `${begin}its file "lock" is not the service's own; move it away`);
  temporary.remove();
});

test('damaged files', async () => {
  const storage = await migratedStorage('embedded');
  writeFileSync(join(storage.folder, 'pgdata/global/pg_control'), 'damaged');
  assertRefused(
    await crm(['migrate'], storage.environment, apart),
    `the data folder ${storage.folder} cannot be opened: its files are damaged. Move the folder away and restore a backup`,
  );
  await storage.remove();
});

test('truncated output is not a failure', async () => {
  for (const args of [['--help'], ['completion', 'bash'], ['check', '--json'], ['openapi']]) {
    const child = spawn(process.execPath, [join(project, 'app/main.ts'), ...args], {
      cwd: project,
      env: inherited(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const stderr = text(child.stderr);
    // Closed before the command writes.
    child.stdout.destroy();
    const [code] = await once(child, 'exit');
    assert.deepEqual([code, await stderr], [0, ''], args.join(' '));
  }
});
