// Every mistake in a YAML file is told with its place and, where a known word is near, a suggestion.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check.ts';
import { YamlError } from '../../engine/yaml/load.ts';

type Files = Readonly<Record<string, string>>;

const head = [
  'fields:',
  '  id: { type: int64, read_only: true, set: id }',
  '  organization_id: { type: int64, read_only: true, set: organization }',
];
/** A file whose further lines begin at line 4. */
const things = (...lines: string[]): Files => ({ 'things.yaml': [...head, ...lines, ''].join('\n') });
const link = '  p: { type: reference, to: things, nullable: true }';
const b = '  b: { type: string }';
const shared = {
  'common.yaml': [...head, '  owner_id: { type: int64, read_only: true, nullable: true, set: creator }'].join(
    '\n',
  ),
};
const name = 'must be a lower-case letter, then up to 39 letters, digits or _';
const required = 'a required field is not read-only, not nullable and has no default';
const identity = 'a resource needs the field "id" with "set: id", and no other with it';
const tenant = 'a resource needs the field "organization_id" with "set: organization", and no other with it';

const alias = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

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

const mistakes: readonly (readonly [files: Files, ...lines: string[]])[] = [
  // Words.
  [things('  a: { type: interger }'), 'things.yaml:4:14  unknown type "interger". Did you mean "integer"?'],
  [things('  a: { type: money }'), 'things.yaml:4:14  unknown type "money"'],
  [things('  a: { nullable: true }'), 'things.yaml:4:3  a lacks "type"'],
  [
    things('  a: { type: text, nulable: true }'),
    'things.yaml:4:20  unknown key "nulable". Did you mean "nullable"?',
  ],
  [things('filter: []'), 'things.yaml:4:1  unknown key "filter". Did you mean "filters"?'],
  [things('colour: red'), 'things.yaml:4:1  unknown key "colour"'],
  [things('sort: { by: id, dir: desc }'), 'things.yaml:4:17  unknown key "dir"'],
  [things('sort: { by: id, direction: down }'), 'things.yaml:4:28  direction must be one of asc, desc'],
  [things('sort: { direction: asc }'), 'things.yaml:4:1  sort lacks "by"'],
  [{ 'things.yaml': 'singular: thing\n' }, 'things.yaml:1:1  the file lacks "fields"'],
  [
    things('  a: { type: int64, read_only: true, set: owner }'),
    'things.yaml:4:43  set must be one of id, organization, creator, editor, created, updated',
  ],
  // Names.
  ...['First', 'a-b', '1a', '_a', 'ä', 'a b', `a${'x'.repeat(40)}`].map(
    (wrong) => [things(`  "${wrong}": { type: string }`), `things.yaml:4:3  "${wrong}" ${name}`] as const,
  ),
  [things('  1: { type: string }'), `things.yaml:4:3  "1" ${name}`],
  [things('  constructor: { type: string }'), 'things.yaml:4:3  "constructor" cannot be a field name'],
  [things('  expanded: { type: string }'), 'things.yaml:4:3  "expanded" cannot be a field name'],
  [things('name: My things'), `things.yaml:4:7  name ${name}`],
  [things('singular: Thing'), `things.yaml:4:11  singular ${name}`],
  [things('name: crm_users'), 'things.yaml:4:7  names that begin with "crm_" are the platform\'s own'],
  [{ 'crm_x.yaml': head.join('\n') }, 'crm_x.yaml:1:1  names that begin with "crm_" are the platform\'s own'],
  [
    { ...things(), 'x.yaml': ['name: things', ...head].join('\n') },
    'things.yaml:1:1  two files define the resource "things"',
  ],
  // Shared fields.
  [things('common: some'), 'things.yaml:4:9  common must be "all" or a list of field names'],
  [things('common: [owner_id]'), 'things.yaml:4:10  no shared field "owner_id"'],
  [
    { ...shared, 'a.yaml': 'common: [id, organization_id, ownerid]\nfields: {}\n' },
    'a.yaml:1:31  no shared field "ownerid". Did you mean "owner_id"?',
  ],
  [
    { ...shared, 'a.yaml': 'common: all\nfields:\n  owner_id: { type: string }\n' },
    'a.yaml:3:3  "owner_id" is a shared field already',
  ],
  // What a field holds when nobody gives it a value.
  [
    things('  a: { type: date }'),
    'things.yaml:4:3  a date has no empty value: give "nullable: true" or "required: true"',
  ],
  [
    things('  a: { type: reference, to: things }'),
    'things.yaml:4:3  a reference needs "nullable: true": it becomes null when the record is deleted',
  ],
  [things('  a: { type: int64, set: creator }'), 'things.yaml:4:21  "set" needs "read_only: true"'],
  [
    things('  a: { type: timestamp, read_only: true, set: creator }'),
    'things.yaml:4:42  "set: creator" needs the type int64',
  ],
  [things('  a: { type: string, required: true, nullable: true }'), `things.yaml:4:22  ${required}`],
  [things('  a: { type: string, required: true, read_only: true }'), `things.yaml:4:22  ${required}`],
  [things('  a: { type: string, required: true, default: x }'), `things.yaml:4:22  ${required}`],
  [
    things('  a: { type: string, nullable: true, default: x }'),
    'things.yaml:4:38  a nullable field is null when absent; it has no default',
  ],
  // Texts.
  [
    things('  a: { type: string, enum: [x], suggested: [y] }'),
    'things.yaml:4:33  give "enum" or "suggested", not both',
  ],
  [
    things('  a: { type: string, pattern: "(" }'),
    'things.yaml:4:22  no regular expression that runs in linear time: error parsing regexp: missing closing ): `(`',
  ],
  [
    things('  a: { type: string, pattern: (a)\\1 }'),
    'things.yaml:4:22  no regular expression that runs in linear time: error parsing regexp: invalid escape sequence: `\\1`',
  ],
  // Keys of every resource.
  [{ 'a.yaml': 'fields:\n  name: { type: string }\n' }, `a.yaml:1:1  ${identity}`, `a.yaml:1:1  ${tenant}`],
  [{ 'a.yaml': head.join('\n').replace(' id:', ' key:') }, `a.yaml:1:1  ${identity}`],
  [things('  a: { type: int64, read_only: true, set: organization }'), `things.yaml:1:1  ${tenant}`],
  [
    things('  due: { type: timestamp, nullable: true }', '  due_offset: { type: string }'),
    'things.yaml:5:3  "due_offset" needs a column that "due" has',
  ],
  // Links.
  [things('  a: { type: reference, nullable: true }'), 'things.yaml:4:3  a reference field needs "to"'],
  [
    things('  a: { type: reference, nullable: true, to: thing }'),
    'things.yaml:4:45  no resource "thing". Did you mean "things"?',
  ],
  [
    things('  a: { type: joined }'),
    'things.yaml:4:3  a joined field needs "through"',
    'things.yaml:4:3  a joined field needs "show"',
  ],
  [
    things(link, '  a: { type: joined, through: q, show: [b] }', b),
    'things.yaml:5:31  no reference "q" here. Did you mean "p"?',
  ],
  [things(b, '  a: { type: joined, through: b, show: [b] }'), 'things.yaml:5:31  no reference "b" here'],
  [
    things(link, '  a: { type: joined, through: p, show: [c, id] }', b),
    'things.yaml:5:40  no text field "c" in things. Did you mean "b"?',
    'things.yaml:5:40  no text field "id" in things. Did you mean "b"?',
  ],
  [
    things(
      link,
      '  a: { type: joined, through: p, show: [b], nullable: true, default: x, required: true }',
      b,
    ),
    'things.yaml:5:45  a joined field has no "nullable"',
    'things.yaml:5:61  a joined field has no "default"',
    'things.yaml:5:73  a joined field has no "required"',
  ],
  // New names, and fields that are going away.
  [things('  a: { type: string, renamed_from: a }'), 'things.yaml:4:22  "a" is the name that it has'],
  [
    things(
      '  a: { type: string, renamed_from: b, alias: true, deprecated: 2026-11-22 }',
      '  c: { type: string }',
    ),
    `things.yaml:4:39  callers must know how long: add deprecated: 2026-11-22, sunset: ${inDays(180)}`,
  ],
  [
    things('  a: { type: string, alias: true, deprecated: 2026-11-22, sunset: 2026-11-21 }'),
    'things.yaml:4:22  "alias" needs "renamed_from"',
    'things.yaml:4:59  must not be before "deprecated" (2026-11-22)',
  ],
  [
    things('  a: { type: string, renamed_from: b, sunset: 2026-11-22 }'),
    'things.yaml:4:39  "sunset" needs "alias: true"',
  ],
  [
    things('  a: { type: string, renamed_from: b, alias: true, deprecated: 2026-11-22, sunset: soon }'),
    'things.yaml:4:84  sunset must be a day, such as 2027-06-30',
  ],
  [
    things(`  a: { type: string, renamed_from: b, ${alias} }`, b),
    'things.yaml:4:22  there is a field "b", too',
  ],
  [
    things('  a: { type: string, renamed_from: c }', '  b: { type: string, renamed_from: c }'),
    'things.yaml:5:22  "a" is renamed from "c" already',
  ],
  [
    { ...things(`renamed_from: others`, alias.replaceAll(', ', '\n')), 'others.yaml': head.join('\n') },
    'things.yaml:4:15  there is a resource "others", too',
  ],
  [
    things(`  a: { type: string, retired: true, renamed_from: c, ${alias} }`),
    'things.yaml:4:54  a retired field has no name for callers',
  ],
  [
    things('  a: { type: int64, retired: true, read_only: true, set: creator }'),
    'things.yaml:4:21  a field that the server sets cannot be retired',
  ],
  [
    things(link, '  a: { type: joined, through: p, show: [b], retired: true }', b),
    'things.yaml:5:45  a joined field stores nothing: take it out',
  ],
  [
    things('  a: { type: string, retired: true }', 'filters: [a]'),
    'things.yaml:5:11  no field "a" here. Did you mean "id"?',
  ],
  // Lists.
  [
    things('  name: { type: text }', 'sort: { by: nam }'),
    'things.yaml:5:13  no field "nam" here. Did you mean "name"?',
  ],
  [
    things('  status: { type: string }', 'filters: [id, statuss]'),
    'things.yaml:5:15  no field "statuss" here. Did you mean "status"?',
  ],
  ...['org', 'page', 'sort', 'dir', 'cursor', 'q'].map(
    (name) =>
      [
        things(`  ${name}: { type: string }`, `filters: [${name}]`),
        `things.yaml:5:11  "${name}" has another meaning`,
      ] as const,
  ),
];

describe('mistakes in definitions', () => {
  for (const [files, ...lines] of mistakes) {
    test(lines.join(' / '), () => assert.deepEqual(told(files), lines));
  }
});

/** Values of the wrong shape: the place, and a text that names the key. */
const shapes: readonly (readonly [line: string, place: string, names: RegExp])[] = [
  ['singular: 7', '4:11', /^singular must be/],
  ['filters: id', '4:10', /^filters must be/],
  ['filters: [id, id]', '4:10', /^filters must NOT have duplicate/],
  ['sort: id', '4:7', /^sort must be/],
  ['sort: { by: id, selectable: maybe }', '4:29', /^selectable must be/],
  ['  a: string', '4:6', /^a must be/],
  ['  a:', '4:5', /^a must be/],
  ['  a: { type: string, required: yes }', '4:32', /^required must be/],
  ['  a: { type: string, enum: [] }', '4:28', /^enum must/],
  ['  a: { type: string, enum: [x, x] }', '4:28', /^enum must NOT have duplicate/],
  ['  a: { type: string, enum: [x, 1] }', '4:32', /\benum\b/],
  ['  a: { type: string, suggested: x }', '4:33', /^suggested must be/],
  ['  a: { type: string, max_length: 0 }', '4:34', /^max_length must be/],
  ['  a: { type: string, max_length: 1.5 }', '4:34', /^max_length must be/],
  ['  a: { type: string, max_length: 1000001 }', '4:34', /^max_length must be/],
  [`  a: { type: string, pattern: ${'x'.repeat(501)} }`, '4:31', /^pattern must/],
  ['  a: { type: string, default: [] }', '4:31', /^default must be/],
  ['  a: { type: string, description: 5 }', '4:35', /^description must be/],
  ['  a: { type: joined, through: p, show: [] }', '4:40', /^show must/],
];

describe('values of the wrong shape', () => {
  for (const [line, place, names] of shapes) {
    test(line.slice(0, 60), () => {
      const lines = told(things(line));
      assert.equal(lines.length, 1, lines.join('\n'));
      const [where = '', text = ''] = (lines[0] ?? '').split('  ');
      assert.equal(where, `things.yaml:${place}`);
      assert.match(text, names);
    });
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
    for (const place of ['a.yaml:2:1', 'b.yaml:4:1', 'c.yaml:4:14', 'd.yaml:4:11']) {
      assert.ok(
        lines.some((line) => line.startsWith(`${place}  `)),
        `${place} in\n${lines.join('\n')}`,
      );
    }
  });
});
