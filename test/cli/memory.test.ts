// What a service does for its memory once it has started.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { project } from '../support/process.ts';

test('what a start has left is collected as a whole, once, and keeps no process', () => {
  const script = `
    import { collectGarbageAfterStart } from ${JSON.stringify(join(project, 'app/serve/memory.ts'))};
    collectGarbageAfterStart();
    setTimeout(() => {}, Number(process.argv[1]));`;
  const traced = (ms: number) =>
    execFileSync(process.execPath, ['--trace-gc', '--input-type=module', '--eval', script, String(ms)], {
      encoding: 'utf8',
    }).match(/Mark-Compact/g)?.length ?? 0;
  assert.deepEqual([traced(2500), traced(0)], [1, 0]);
});
