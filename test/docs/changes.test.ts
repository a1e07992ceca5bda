// The paths that docs/changes.md, docs/architecture.md and other pages refer to exist.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '../..');
/** Source files and folders in a page's inline code. */
const paths = (page: string): string[] => [
  ...new Set(
    [
      ...readFileSync(join(root, page), 'utf8').matchAll(
        /`((?:app|engine|plugins|webhooks|test|resources|migrations|samples|bench|bin)\/[\w./-]*)`/g,
      ),
    ].map(([, path = '']) => path),
  ),
];

for (const page of ['docs/changes.md', 'docs/architecture.md', 'docs/reliability.md', 'CONTRIBUTING.md']) {
  describe(page, () => {
    const found = paths(page);
    test('names files', () => assert.ok(found.length >= 5, page));
    for (const path of found) test(path, () => assert.ok(existsSync(join(root, path))));
  });
}

test('docs/changes.md lists at least twelve changes', () => {
  const rows = readFileSync(join(root, 'docs/changes.md'), 'utf8').match(/^\| .*`/gm) ?? [];
  assert.ok(rows.length >= 12);
});
