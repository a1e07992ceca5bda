// docs/reliability.md and SECURITY.md name the tests of each guarantee. The tests exist, and run on the databases that the pages
// state.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
/** A test file in a page, and the text that follows it: the names of its tests in quotes, and its databases. */
const testFile = /`(test\/[^`]+)`([^`|]*)/g;
const runsOnBothDrivers = /\bonBothDrivers\(|\bof drivers\)|\bdrivers\.filter\(/;

for (const [page, leastRows, leastOnBoth] of [
  ['docs/reliability.md', 80, 40],
  ['SECURITY.md', 25, 0],
] as const) {
  describe(page, () => {
    const text = read(page);
    const rows = [...text.matchAll(/^\| (?:guarantee|defense) \| test \|\n\| --- \| --- \|\n((?:\|.*\n)+)/gm)]
      .flatMap(([, table = '']) => table.trimEnd().split('\n'))
      .map((row) => row.slice(row.lastIndexOf(' | ')));
    const files = [...text.matchAll(testFile)].map(([, file = '', suffix = '']) => ({ file, suffix }));

    test('each row of its tables names a test', () => {
      assert.ok(rows.length >= leastRows, `${rows.length} rows`);
      for (const tests of rows) assert.match(tests, /`test\/[\w./-]+\.ts`/);
    });

    test('the files exist and contain the tests', () => {
      for (const { file, suffix } of files) {
        assert.ok(existsSync(join(root, file)), file);
        if (!file.startsWith('test/support/')) assert.match(read(file), /\btest\(/, file);
        for (const [, name = ''] of suffix.matchAll(/"([^"]+)"/g))
          assert.ok(read(file).includes(`test('${name}'`), `${file}: ${name}`);
      }
    });

    test('a test runs on both databases if the page states it', () => {
      const both = files.filter(({ suffix }) => /\([^)]*\bboth\b/.test(suffix));
      assert.ok(both.length >= leastOnBoth, `${both.length} tests`);
      for (const { file } of both) assert.match(read(file), runsOnBothDrivers, file);
    });
  });
}
