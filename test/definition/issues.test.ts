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

describe('values at a limit are valid', () => {
  const numbered = (count: number, line: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => line(index));
  for (const lines of [
    ['  a: { type: integer, min: 2, max: 2, default: 2 }'],
    ['  a: { type: integer, min: 0 }', '  b: { type: integer, max: 0 }'],
    ['  a: { type: string, min_length: 2, max_length: 2, nullable: true }'],
    ['  a: { type: string, max_length: 1000000 }', `  b: { type: string, pattern: ${'x'.repeat(500)} }`],
    ['  a: { type: int64, max: 9007199254740991, min: -9007199254740991, default: 9007199254740991 }'],
    ['  a: { type: list, max_items: 1000 }'],
    ['  a: { type: string, sequence: "{000000000000}" }'],
    ['  a: { type: string, renamed_from: b, alias: true, deprecated: 2026-11-22, sunset: 2026-11-22 }'],
    [`  a${'x'.repeat(39)}: { type: string }`],
    ['trash: 1 day'],
    ['trash: 3650 days'],
    ['scopes:', ...numbered(20, (index) => `  s${index}: id == 1`)],
    numbered(1597, (index) => `  f${index}: { type: string }`),
    [...numbered(1596, (index) => `  f${index}: { type: string }`), 'trash: 1 day'],
  ])
    test(`${lines[0]}${lines.length > 2 ? ` and ${lines.length - 1} more lines` : ''}`, () =>
      assert.deepEqual(messagesOf(things(...lines)), []));

  test('a column name of 63 characters', () =>
    assert.deepEqual(
      messagesOf({
        ...things(`  ${'a'.repeat(40)}: { type: reference, to: [things, quotes], nullable: true }`),
        'quotes.yaml': `singular: ${'q'.repeat(19)}\n${head.join('\n')}\n`,
      }),
      [],
    ));

  test('a trash adds a column to the table', () =>
    assert.deepEqual(
      messagesOf(things(...numbered(1597, (index) => `  f${index}: { type: string }`), 'trash: 1 day')),
      [
        'things.yaml:1:1  the fields need 1599 columns, but a PostgreSQL table can have only 1598. Split the resource.',
      ],
    ));
});

test('a number that callers must set can be unique on its own', () => {
  const field = '  a: { type: integer, required: true';
  assert.deepEqual(messagesOf(things(`${field}, unique: true }`)), []);
  assert.deepEqual(messagesOf(things(`${field} }`, 'unique: [a]')), []);
});

describe('long values and lists are shortened in messages', () => {
  const long = 'x'.repeat(60);
  for (const [lines, message] of [
    [
      [`  a: { type: string, unique: ${long} }`],
      `4:30  unique must be true or false, not "${long.slice(0, 38)}…`,
    ],
    [
      [`  a: { type: string, description: @${long} }`],
      `4:35  text that starts with "@" needs quotes: "@${long.slice(0, 38)}…"`,
    ],
    // Only a few names are listed.
    [
      [...'abcdefgh'].map((name) => `  ${name}: { type: string }`).concat('scopes: { x: zz == "1" }'),
      '12:14  unknown field "zz"',
    ],
  ] as const)
    test(message, () => assert.deepEqual(messagesOf(things(...lines)), [`things.yaml:${message}`]));

  test('at most ten syntax errors of a file are reported', () => {
    const lines = Array.from({ length: 11 }, (_, index) => `  f${index}: { type: string, type: text }`);
    const messages = messagesOf(things(...lines));
    assert.equal(messages.length, 10);
    assert.match(messages.at(-1) ?? '', /^things\.yaml:13:\d+ {2}"type" is a duplicate key/);
  });
});

describe('an issue is reported once, and not where its file or field is used', () => {
  const invalid = 'things.yaml:4:14  unknown type "strin". Did you mean "string"?';
  for (const [name, files, ...messages] of [
    [
      'shared fields',
      { 'common.yaml': 'fields: []\n', 'a.yaml': 'common: [id, organization_id]\nfields: {}\n' },
      'common.yaml:1:9  fields must be a map of fields, for example name: { type: string }, not a list',
    ],
    [
      'a field of a computed field',
      things('  a: { type: strin }', '  b: { type: number, computed: a + 1 }'),
      invalid,
    ],
    [
      'a field of a joined field',
      {
        ...things('  a: { type: strin }'),
        'pets.yaml': [
          ...head,
          '  thing_id: { type: reference, to: things, nullable: true }',
          '  thing: { type: joined, through: thing_id, show: [a] }',
        ].join('\n'),
      },
      invalid,
    ],
    [
      'a resource of a reference, a rollup and a list of children',
      {
        ...things('  pet_id: { type: reference, to: pets, nullable: true }', 'colour: red'),
        'pets.yaml': [
          ...head,
          '  thing_id: { type: reference, to: things, nullable: true }',
          '  count: { type: integer, rollup: { count: true, of: things, by: pet_id } }',
          'children: { rows: { of: things, by: pet_id } }',
        ].join('\n'),
      },
      'things.yaml:5:1  unknown key "colour"',
    ],
    [
      'an extended resource',
      { ...things('colour: red'), 'own/more.yaml': 'extends: things\nfields:\n  a: { type: string }\n' },
      'things.yaml:4:1  unknown key "colour"',
    ],
  ] as const satisfies readonly (readonly [string, Files, ...string[]])[])
    test(name, () => assert.deepEqual(messagesOf(files), messages));
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
