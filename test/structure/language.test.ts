// Rejects words and constructions that docs/glossary.md replaces, in code, comments, messages and documentation, and
// exported names with two meanings.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

const root = join(import.meta.dirname, '../..');

/** Patterns without a legitimate use, each with its replacement and a sentence it must find. */
const rules: readonly (readonly [pattern: RegExp, replacement: string, example: string])[] = [
  [
    /(?<!\bthere )\b(?:is|are|be|was|were) no (?!longer\b)/i,
    '"is not a", "there is no" → a negated verb',
    'rating is no filter',
  ],
  [/\bthere (?:is|are|was|were) none\b/i, '"does not exist", "is missing"', 'a default, where there is none'],
  [/\bany ?more\b/i, '"no longer"', 'is not used any more'],
  [/\bat once\b/i, '"immediately" or "at the same time"', 'is served at once'],
  [
    /\b(?:whoever|anybody)\b|\bnobody [a-z]/i,
    'the role: caller, client, user, member, operator',
    'nobody writes',
  ],
  [/\bmeanwhile\b/i, '"in the meantime", "concurrently", "during …"', 'what was written meanwhile'],
  [/\b(?:goes on|go on)\b/i, '"continues"', 'the work goes on'],
  [/\banew\b/i, '"again"', 'begins anew'],
  [/\bis told\b/i, '"is notified", "receives"', 'the caller is told'],
  [/\b(?:taken|takes?) away\b/i, '"removed", "dropped"', 'a column that is taken away'],
  [/\bgiven out\b/i, '"assigned", "issued"', 'numbers are given out'],
  [/\b(?:those|that) of the\b/i, 'the noun: "the records of the …"', 'as that of the other'],
  [/\bof (?:those|them) that\b/i, 'the noun', 'one of those that'],
  [/, else\b/i, '", otherwise"', 'the first, else the second'],
  [/\bmend(?:s|ed|ing)?\b/i, '"fix"', 'how to mend it'],
  [/\bstands? (?:there|elsewhere)\b/i, '"is"', 'what stands elsewhere'],
  [
    /\binsistently\b|\bGivenPlace\b|\b(?:interface|type) (?:Asked|Shown|Told|Wish)\b/,
    'a noun of the glossary',
    'interface Asked {',
  ],
];

/** Files of the project, without sample records, and without the two files that quote the words. */
const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter(
    (file) =>
      /\.(?:ts|js|md|hbs|ya?ml|css)$/.test(file) &&
      !/^(?:samples\/|docs\/glossary\.md$|test\/structure\/language\.test\.ts$)/.test(file),
  );

/** Matches the name of each declaration that a file exports. A re-export does not match. */
const exportedName =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|class|enum|function\*?|interface|type) (\w+)/gm;
/** Maximum number of names that two declarations can share. */
const maxShared = 3;

describe('language', () => {
  test('an exported name belongs to one declaration', () => {
    const exporters = new Map<string, string[]>();
    for (const file of files.filter((path) => /^(?:engine|plugins|webhooks|app)\/.*\.ts$/.test(path))) {
      const matches = readFileSync(join(root, file), 'utf8').matchAll(exportedName);
      // A type and a value with the same name, or the overloads of a function, are one declaration.
      for (const name of new Set([...matches].map(([, found = '']) => found)))
        exporters.set(name, [...(exporters.get(name) ?? []), file]);
    }
    assert.ok(exporters.size > 1000, `only ${exporters.size} exported names were found`);
    const shared = [...exporters].filter(([, paths]) => paths.length > 1);
    assert.ok(
      shared.length <= maxShared && shared.every(([, paths]) => paths.length === 2),
      shared.map(([name, paths]) => `${name}: ${paths.join(', ')}`).join('\n'),
    );
  });

  for (const [pattern, replacement, example] of rules) {
    test(`${pattern.source} is replaced by ${replacement}`, () => {
      assert.match(example, pattern);
      const uses = files.flatMap((file) =>
        readFileSync(join(root, file), 'utf8')
          .split('\n')
          .flatMap((line, index) =>
            pattern.test(line) ? [`${file}:${index + 1}: ${line.trim().slice(0, 120)}`] : [],
          ),
      );
      assert.deepEqual(uses, []);
    });
  }
});
