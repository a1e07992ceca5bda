// Each issue in a YAML file is reported with its location and a suggestion if a known word is close.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { YamlError } from '../../engine/yaml/load.ts';
import { type Files, head, things, wrongFiles } from './invalid-files.ts';

/** Returns the error messages for files, or an empty list if they are valid. */
function messagesOf(files: Files): string[] {
  try {
    checkSources(Object.entries(files).map(([file, text]) => ({ file, text })));
    return [];
  } catch (error) {
    assert.ok(error instanceof YamlError, String(error));
    assert.equal(error.issues.length, error.message.split('\n').length);
    return error.message.split('\n');
  }
}

describe('issues in definitions', () => {
  for (const [files, ...lines] of wrongFiles) {
    test(lines.join(' / '), () => assert.deepEqual(messagesOf(files), lines));
  }
});

/** Defaults that are invalid in request bodies, so that every create would fail. */
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
      const lines = messagesOf(things(`  a: ${field}`));
      assert.equal(lines.length, 1, lines.join('\n'));
      assert.ok(lines[0]?.startsWith(`things.yaml:${place}  the default must `), lines[0]);
    });
  }

  test('an int64 beyond 2^53 is exact or rejected, never rounded', () => {
    const text = things('  a: { type: int64, default: 9007199254740993 }')['things.yaml'] ?? '';
    let value: unknown;
    try {
      value = checkSources([{ file: 'things.yaml', text }])[0]?.fields.at(-1)?.default;
    } catch (error) {
      assert.match((error as Error).message, /^things\.yaml:4:21 {2}the default must /);
      return;
    }
    assert.equal(String(value), '9007199254740993');
  });
});

describe('resource names derived from file names', () => {
  for (const file of [
    'My Things.yaml',
    'leads-2.yaml',
    '1.yaml',
    'a"; drop table x; --.yaml',
    'Ä.yaml',
    '.yaml',
  ]) {
    test(file, () => {
      const lines = messagesOf({ [`resources/${file}`]: head.join('\n') });
      assert.equal(lines.length, 1, 'the name is invalid as a path, a table and in permissions');
      assert.ok(lines[0]?.startsWith(`resources/${file}:1:1  `), lines[0]);
    });
  }
});

describe('all issues are reported together', () => {
  test('issues of all files, in the order of the files', () => {
    const lines = messagesOf({
      'a.yaml': [...head, '  x: { type: strin }', '  y: { type: string, to: b }'].join('\n'),
      'b.yaml': [...head, '  z: { type: strang }'].join('\n'),
    });
    assert.deepEqual(lines, [
      'a.yaml:4:14  unknown type "strin". Did you mean "string"?',
      'a.yaml:5:22  a string field cannot have "to"',
      'b.yaml:4:14  unknown type "strang". Did you mean "string"?',
    ]);
  });

  test('an invalid file does not hide issues of any kind in other files', () => {
    const lines = messagesOf({
      'a.yaml': 'fields: [\n',
      'b.yaml': [...head, 'colour: red'].join('\n'),
      'c.yaml': [...head, '  y: { type: strin }'].join('\n'),
      'd.yaml': [...head, 'filters: [zzz]'].join('\n'),
    });
    for (const location of ['a.yaml:1:9', 'b.yaml:4:1', 'c.yaml:4:14', 'd.yaml:4:11']) {
      assert.ok(
        lines.some((line) => line.startsWith(`${location}  `)),
        `${location} in\n${lines.join('\n')}`,
      );
    }
  });
});
