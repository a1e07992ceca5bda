// Every mistake in a YAML file is told with its place and, where a known word is near, a suggestion.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check.ts';
import { YamlError } from '../../engine/yaml/load.ts';
import { type Files, head, things, wrongFiles } from './wrong-files.ts';

/** The lines told for some files; none where they are right. */
function told(files: Files): string[] {
  try {
    checkSources(Object.entries(files).map(([file, text]) => ({ file, text })));
    return [];
  } catch (error) {
    assert.ok(error instanceof YamlError, String(error));
    assert.equal(error.problems.length, error.message.split('\n').length);
    return error.message.split('\n');
  }
}

describe('mistakes in definitions', () => {
  for (const [files, ...lines] of wrongFiles) {
    test(lines.join(' / '), () => assert.deepEqual(told(files), lines));
  }
});

/** Defaults that no body could have either: stored, each POST would fail. */
const defaults: readonly (readonly [field: string, place: string])[] = [
  ['{ type: integer, default: "7" }', '4:23'],
  ['{ type: integer, default: 1.5 }', '4:23'],
  ['{ type: integer, default: 2147483648 }', '4:23'],
  ['{ type: int64, default: 0.1 }', '4:21'],
  ['{ type: int64, default: 9223372036854775808 }', '4:21'],
  ['{ type: number, default: yes }', '4:22'],
  ['{ type: boolean, default: "true" }', '4:23'],
  ['{ type: string, default: 7 }', '4:22'],
  ['{ type: string, default: "a\\0b" }', '4:22'],
  ['{ type: string, default: "\\uD800" }', '4:22'],
  ['{ type: string, default: abc, max_length: 2 }', '4:22'],
  ['{ type: string, default: abc, pattern: "^x" }', '4:22'],
  ['{ type: timestamp, default: now }', '4:25'],
  ['{ type: date, default: 2026-02-30 }', '4:20'],
];

describe('defaults are validated like values in a body', () => {
  for (const [field, place] of defaults) {
    test(field, () => {
      const lines = told(things(`  a: ${field}`));
      assert.equal(lines.length, 1, lines.join('\n'));
      assert.ok(lines[0]?.startsWith(`things.yaml:${place}  the default must `), lines[0]);
    });
  }

  test('an int64 beyond 2^53 is exact, or refused: never rounded', () => {
    const text = things('  a: { type: int64, default: 9007199254740993 }')['things.yaml'] ?? '';
    let held: unknown;
    try {
      held = checkSources([{ file: 'things.yaml', text }])[0]?.fields.at(-1)?.default;
    } catch (error) {
      assert.match((error as Error).message, /^things\.yaml:4:21 {2}the default must /);
      return;
    }
    assert.equal(String(held), '9007199254740993');
  });
});

describe('names that come from the name of a file', () => {
  for (const file of [
    'My Things.yaml',
    'leads-2.yaml',
    '1.yaml',
    'a"; drop table x; --.yaml',
    'Ä.yaml',
    '.yaml',
  ]) {
    test(file, () => {
      const lines = told({ [`resources/${file}`]: head.join('\n') });
      assert.equal(lines.length, 1, 'it is no name for a path, a table and an object of permissions');
      assert.ok(lines[0]?.startsWith(`resources/${file}:1:1  `), lines[0]);
    });
  }
});

describe('all at once', () => {
  test('mistakes of every file, in the order of the files', () => {
    const lines = told({
      'a.yaml': [...head, '  x: { type: strin }', '  y: { type: string, to: b }'].join('\n'),
      'b.yaml': [...head, '  z: { type: strang }'].join('\n'),
    });
    assert.deepEqual(lines, [
      'a.yaml:4:14  unknown type "strin". Did you mean "string"?',
      'a.yaml:5:22  a string field has no "to"',
      'b.yaml:4:14  unknown type "strang". Did you mean "string"?',
    ]);
  });

  test('one wrong file hides no mistake in another, whatever their kinds', () => {
    const lines = told({
      'a.yaml': 'fields: [\n',
      'b.yaml': [...head, 'colour: red'].join('\n'),
      'c.yaml': [...head, '  y: { type: strin }'].join('\n'),
      'd.yaml': [...head, 'filters: [zzz]'].join('\n'),
    });
    for (const place of ['a.yaml:1:9', 'b.yaml:4:1', 'c.yaml:4:14', 'd.yaml:4:11']) {
      assert.ok(
        lines.some((line) => line.startsWith(`${place}  `)),
        `${place} in\n${lines.join('\n')}`,
      );
    }
  });
});
