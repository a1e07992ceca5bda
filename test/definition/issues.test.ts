// Each issue in a YAML file is reported with its location and a suggestion if a known word is close.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { YamlError } from '../../engine/yaml/load.ts';
import { nearest } from '../../engine/yaml/words.ts';
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

describe('values beyond a limit are rejected', () => {
  const letters = 'abcdefghijklm'.split('');
  const strings = letters.map((name) => `  ${name}: { type: string }`);
  const list = <T>(count: number, item: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => item(index));
  const check = (message = 'No.') => `{ that: a != "", fields: [a], message: ${message} }`;
  const text = (length: number) => 'x'.repeat(length);
  const field = (keys: string) => things(`  a: { type: string, ${keys} }`);
  for (const [name, make, low, high] of [
    ['max_length', (value) => field(`max_length: ${value}`), 1, 1_000_000],
    ['min_length', (value) => field(`min_length: ${value}, nullable: true`), 1, 1_000_000],
    ['max_items', (value) => things(`  a: { type: list, max_items: ${value} }`), 1, 1000],
    ['label', (length) => field(`label: ${text(length)}`), 1, 60],
    ['help', (length) => field(`help: ${text(length)}`), 1, 300],
    ['message of a field', (length) => field(`max_length: 9, message: ${text(length)}`), 1, 200],
    ['message of a check', (length) => things(...strings, `checks: [${check(text(length))}]`), 1, 200],
    ['sequence', (length) => field(`sequence: "${text(length - 3)}{0}"`), 3, 60],
    ['unique', (count) => things(...strings, `unique: [${letters.slice(0, count)}]`), 1, 4],
    ['unique of a group', (count) => things(...strings, `unique: [[${letters.slice(0, count)}]]`), 1, 4],
    ['checks', (count) => things(...strings, `checks: [${list(count, () => check())}]`), 1, 20],
    ['title', (count) => things(...strings, `screen: { title: [${letters.slice(0, count)}] }`), 1, 4],
    ['columns', (count) => things(...strings, `screen: { columns: [${letters.slice(0, count)}] }`), 1, 12],
    [
      'children',
      (count) =>
        things(
          ...list(count, (index) => `  p${index}: { type: reference, to: things, nullable: true }`),
          'children:',
          ...list(count, (index) => `  c${index}: { of: things, by: p${index} }`),
        ),
      1,
      20,
    ],
  ] as const satisfies readonly (readonly [string, (value: number) => Files, number, number])[])
    test(`${name}: ${low} to ${high}`, () => {
      for (const value of [low, high]) assert.deepEqual(messagesOf(make(value)), [], String(value));
      const [message = '', ...others] = messagesOf(make(high + 1));
      assert.ok(message.includes(`  ${name.split(' ')[0]} must `) && others.length === 0, message);
    });
});

describe('lists need an entry, and each entry once', () => {
  const fields = ['  a: { type: string }', '  b: { type: string }'];
  const ofField = (keys: string, key: string) => (entries: string) => [
    `  c: { type: string, ${keys}${key}: [${entries}] }`,
  ];
  const closed = 'enum: [a, b], closed: true, default: a, ';
  for (const [key, linesOf] of [
    ['enum', ofField('', 'enum')],
    ['suggested', ofField('', 'suggested')],
    ['initial', ofField(`${closed}transitions: { a: [b] }, `, 'initial')],
    ['unique', (entries) => [`unique: [${entries}]`]],
    ['item 1 of unique', (entries) => [`unique: [[${entries}]]`]],
    ['title', (entries) => [`screen: { title: [${entries}] }`]],
    ['columns', (entries) => [`screen: { columns: [${entries}] }`]],
    ['group_by', (entries) => [`aggregates: { group_by: [${entries}] }`]],
    ['measures', (entries) => [`aggregates: { measures: [${entries}] }`]],
    ['fields', (entries) => [`checks: [{ that: a != b, fields: [${entries}], message: No. }]`]],
  ] as const satisfies readonly (readonly [string, (entries: string) => readonly string[]])[])
    test(key, () => {
      const [none = [], twice = []] = ['', 'a, a'].map((entries) =>
        messagesOf(things(...fields, ...linesOf(entries))),
      );
      assert.match(none.join(), / must be /);
      assert.match(twice.join(), / is listed twice in | must be /);
    });
});

test('the period of a trash is its number of days', () => {
  for (const [period, days] of [
    ['1 day', 1],
    ['30 days', 30],
    ['365 days', 365],
    ['3650 days', 3650],
  ] as const) {
    const text = things(`trash: ${period}`)['things.yaml'] ?? '';
    const [definition] = checkSources([{ file: 'things.yaml', text }]);
    assert.deepEqual(definition?.trash, { days });
  }
});

test('a number that callers must set can be unique on its own', () => {
  const field = '  a: { type: integer, required: true';
  assert.deepEqual(messagesOf(things(`${field}, unique: true }`)), []);
  assert.deepEqual(messagesOf(things(`${field} }`, 'unique: [a]')), []);
});

test('fields of one group, and sensitive fields, can be used together', () =>
  assert.deepEqual(
    messagesOf(
      things(
        '  p: { type: reference, to: things, nullable: true, group: g }',
        '  q: { type: reference, to: things, nullable: true }',
        '  a: { type: number, group: g }',
        '  b: { type: number, group: g }',
        '  n: { type: string, group: g }',
        '  m: { type: string, nullable: true, default_from: n, group: g }',
        '  c: { type: number, computed: a + b, group: g }',
        '  j: { type: joined, through: p, show: [n], group: g }',
        '  r: { type: number, rollup: { sum: a, of: things, by: p, where: b > 1 }, group: g }',
        '  u: { type: integer, rollup: { count: true, of: things, by: q, unscoped: true } }',
        '  s: { type: number, sensitive: true }',
        '  t: { type: number, computed: s * 2, sensitive: true }',
        'checks: [{ that: a < b, fields: [a], message: No. }]',
        'unique: [n, m]',
        'scopes: { low: id < 5 }',
      ),
    ),
    [],
  ));

test('a list of children can have the name of a resource whose own list has another name', () => {
  const identity = 'common: [id, organization_id]\n';
  const referring = `${identity}fields:\n  quote_id: { type: reference, to: quotes, nullable: true }\n`;
  assert.deepEqual(
    messagesOf({
      'common.yaml': head.join('\n'),
      'lines.yaml': referring,
      'notes.yaml': referring,
      'quotes.yaml': `${identity}fields: {}\nchildren: { lines: { of: notes, by: quote_id }, items: { of: lines, by: quote_id } }\n`,
    }),
    [],
  );
});

test('a reference can have the name of a parameter of aggregates', () =>
  assert.deepEqual(
    messagesOf(
      things('  tz: { type: reference, to: things, nullable: true }', 'aggregates: { group_by: [tz] }'),
    ),
    [],
  ));

test('a key with the value false is as good as absent', () =>
  assert.deepEqual(messagesOf(things('  a: { type: integer, closed: false, nullable: false }')), []));

test('a former name that callers use cannot be a name of the trash', () => {
  const alias = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
  assert.deepEqual(
    messagesOf(things(`  a: { type: string, renamed_from: trashed_at, ${alias} }`, 'trash: 1 day')),
    ['things.yaml:4:3  a resource with "trash" cannot have a field named "trashed_at". Rename the field.'],
  );
  assert.deepEqual(messagesOf(things('  a: { type: string, renamed_from: trashed_at }', 'trash: 1 day')), []);
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

test('a word is suggested if it is close enough for its length', () => {
  for (const [word, candidates, expected] of [
    ['Created-At', ['updated_at', 'created_at'], 'created_at'],
    ['x', ['y'], undefined],
    ['xy', ['xz'], 'xz'],
    ['abc', ['xbc'], 'xbc'],
    ['abc', ['axx'], undefined],
    // With two mistakes, a word of up to five letters must have the same first letter.
    ['leeps', ['leads'], 'leads'],
    ['laeds', ['leads'], 'leads'],
    ['deals', ['leads'], undefined],
    ['abcdef', ['xbcdex'], 'xbcdex'],
    // Longer words can have more mistakes.
    ['abcdefgh', ['abcdexyz'], undefined],
    ['abcdefghi', ['abcdefxyz'], 'abcdefxyz'],
    ['statuss', ['states', 'status'], 'status'],
  ] as const)
    assert.equal(nearest(word, candidates), expected, word);
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
