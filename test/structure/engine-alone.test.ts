// The engine's own tests pass without plugins, webhooks and app on disk.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type Imports, readImports } from '../support/imports.ts';
import { temporaryFolder } from '../support/instance.ts';
import { project } from '../support/process.ts';

/** Returns a file and all files that it imports directly or indirectly. */
function reached(imports: Imports, file: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const next of imports.get(file) ?? []) reached(imports, next, found);
  return found;
}

test('the engine passes its own tests without other code', async () => {
  const imports = readImports('app', 'engine', 'plugins', 'webhooks', 'test');
  const isOfEngine = (file: string) => /^(?:engine|test)\//.test(file);
  const own = [...imports.keys()].filter(
    (file) =>
      file.endsWith('.test.ts') &&
      !/^test\/(?:structure|docs|runner|browser)\//.test(file) &&
      [...reached(imports, file)].every(isOfEngine) &&
      [...reached(imports, file)].some((each) => each.startsWith('engine/')),
  );
  assert.ok(own.length >= 7, `only ${own.join(', ')} need nothing but the engine`);
  const folder = temporaryFolder();
  // A test process within a test process would report to the outer one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  try {
    for (const name of ['engine', 'resources', 'package.json', 'tsconfig.json']) {
      cpSync(join(project, name), join(folder.path, name), { recursive: true });
    }
    symlinkSync(join(project, 'node_modules'), join(folder.path, 'node_modules'));
    for (const file of new Set(own.flatMap((each) => [...reached(imports, each)]))) {
      if (!file.startsWith('test/')) continue;
      mkdirSync(dirname(join(folder.path, file)), { recursive: true });
      cpSync(join(project, file), join(folder.path, file));
    }
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--test', '--test-reporter=tap', '--test-isolation=none', ...own],
      { cwd: folder.path, env, maxBuffer: 64 * 1024 * 1024 },
    );
    assert.match(stdout, /^# fail 0$/m);
    assert.ok(Number(/^# pass (\d+)$/m.exec(stdout)?.[1]) > 300, stdout.slice(-300));
  } finally {
    folder.remove();
  }
});
