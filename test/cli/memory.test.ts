// Garbage collection after startup.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { project } from '../support/process.ts';

test('runs one full garbage collection after startup, and does not keep the process alive', () => {
  // A timer that keeps the process alive would be an active resource.
  const script = `
    import { collectGarbageAfterStart } from ${JSON.stringify(join(project, 'app/serve/memory.ts'))};
    collectGarbageAfterStart();
    console.log('active: ' + process.getActiveResourcesInfo().includes('Timeout'));
    setTimeout(() => {}, 2500);`;
  const output = execFileSync(process.execPath, ['--trace-gc', '--input-type=module', '--eval', script], {
    encoding: 'utf8',
  });
  assert.deepEqual(
    [output.match(/Mark-Compact/g)?.length, /active: \w+/.exec(output)?.[0]],
    [1, 'active: false'],
  );
});
