// Garbage collection after startup.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { project } from '../support/process.ts';

test('runs one full garbage collection after startup, and does not keep the process alive', () => {
  const script = `
    import { collectGarbageAfterStart } from ${JSON.stringify(join(project, 'app/serve/memory.ts'))};
    collectGarbageAfterStart();
    setTimeout(() => {}, Number(process.argv[1]));`;
  const collections = (ms: number) =>
    execFileSync(process.execPath, ['--trace-gc', '--input-type=module', '--eval', script, String(ms)], {
      encoding: 'utf8',
    }).match(/Mark-Compact/g)?.length ?? 0;
  assert.deepEqual([collections(2500), collections(0)], [1, 0]);
});
