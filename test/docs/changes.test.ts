// The paths that docs/changes.md and docs/architecture.md send readers to exist.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '../..');
/** Files and folders of the source, as code in a page. */
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

test('docs/changes.md has twelve changes or more', () => {
  const rows = readFileSync(join(root, 'docs/changes.md'), 'utf8').match(/^\| .*`/gm) ?? [];
  assert.ok(rows.length >= 12);
});
