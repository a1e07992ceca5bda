// Tests the test runner's exit code and its last line. A failed run must not look successful.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { postgresServer, temporaryFolder } from '../support/instance.ts';
import { project, start } from '../support/process.ts';

const cases: Readonly<Record<string, [program: string, code: number, lastLine: string, ci?: string]>> = {
  'exits with 0 if all tests pass': [`test('a', () => {})`, 0, '1 passed, 0 failed'],
  'exits with 1 if a test fails': [
    `test('a', () => { throw new Error('no') }); test('b', () => {})`,
    1,
    '1 passed, 1 failed',
  ],
  'exits with 1 if an after hook fails': [
    `describe('a', () => { after(() => { throw new Error('no') }); test('b', () => {}) })`,
    1,
    '1 passed, 1 failed',
  ],
  'counts a skipped suite': [
    `describe('a', { skip: 'why' }, () => {}); test('b', () => {})`,
    0,
    '1 passed, 0 failed, 1 skipped',
  ],
  'exits with 1 if a suite is skipped on CI': [
    `describe('a', { skip: 'why' }, () => {}); test('b', () => {})`,
    1,
    '1 passed, 1 failed, 1 skipped',
    'true',
  ],
  'exits with 1 if a file exits before its tests': ['process.exit(3)', 1, '0 passed, 1 failed'],
};

describe('test runner', () => {
  for (const [name, [program, code, lastLine, ci = 'false']] of Object.entries(cases)) {
    test(name, async () => {
      const folder = temporaryFolder();
      const file = join(folder.path, 'some.test.mjs');
      writeFileSync(file, `import { after, describe, test } from 'node:test';\n${program}\n`);
      const environment = { TEST_POSTGRES_URL: await postgresServer(), CI: ci };
      const runner = await start([file], environment, { program: [join(project, 'test/run.ts')] }).ended;
      folder.remove();
      assert.deepEqual(
        [runner.code, runner.stdout.trimEnd().split('\n').at(-1)],
        [code, lastLine],
        runner.stderr,
      );
    });
  }
});
