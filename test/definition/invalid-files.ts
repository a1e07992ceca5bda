// Invalid files with their expected messages, for the definition checks and for the editor schemas.
import { fieldTypes } from '../../engine/fields/field-types.ts';
import { operators } from '../../engine/query/operators.ts';

/** File contents, keyed by file name. */
export type Files = Readonly<Record<string, string>>;

export const head = [
  'fields:',
  '  id: { type: int64, read_only: true, set: id }',
  '  organization_id: { type: int64, read_only: true, set: organization }',
];
/** Returns a file whose additional lines start at line 4. */
export const things = (...lines: string[]): Files => ({ 'things.yaml': [...head, ...lines, ''].join('\n') });
const link = '  p: { type: reference, to: things, nullable: true }';
const b = '  b: { type: string }';
const shared = {
  'common.yaml': [...head, '  owner_id: { type: int64, read_only: true, nullable: true, set: creator }'].join(
    '\n',
  ),
};
const name = 'must be a lowercase letter followed by up to 39 letters, digits or underscores';
const excluded = (key: string) => `"required" and "${key}" are mutually exclusive: remove one`;
const identity = 'exactly one field must have "set: id", and its name must be "id"';
const tenant = 'exactly one field must have "set: organization", and its name must be "organization_id"';

const alias = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

const operatorNames = Object.keys(operators).join(', ');

/** Invalid files and the expected messages. */
export const wrongFiles: readonly (readonly [files: Files, ...lines: string[]])[] = [
  // Unknown and misspelled words.
  [things('  a: { type: interger }'), 'things.yaml:4:14  unknown type "interger". Did you mean "integer"?'],
  [things('  a: { type: money }'), 'things.yaml:4:14  unknown type "money". Use "number", which is exact.'],
  [things('  a: { nullable: true }'), 'things.yaml:4:3  a needs "type"'],
  [
    things('  a: { type: text, nulable: true }'),
    'things.yaml:4:20  unknown key "nulable". Did you mean "nullable"?',
  ],
  [things('filter: []'), 'things.yaml:4:1  unknown key "filter". Did you mean "filters"?'],
  [things('colour: red'), 'things.yaml:4:1  unknown key "colour"'],
  [
    things('  a: { type: strong-box }'),
    `things.yaml:4:14  unknown type "strong-box". Available: ${Object.keys(fieldTypes).join(', ')}`,
  ],
  [things('sort: { by: id, dir: desc }'), 'things.yaml:4:17  unknown key "dir". Use "direction".'],
  [things('sort: { by: id, direction: down }'), 'things.yaml:4:28  direction must be one of asc, desc'],
  [things('sort: { direction: asc }'), 'things.yaml:4:1  sort needs "by"'],
  [{ 'things.yaml': 'singular: thing\n' }, 'things.yaml:1:1  the file needs "fields"'],
  [
    things('  a: { type: int64, read_only: true, set: owner }'),
    'things.yaml:4:43  set must be one of id, organization, creator, editor, created, updated',
  ],
  // Names.
  ...(
    [
      ['First', 'first'],
      ['firstName', 'first_name'],
      ['a-b', 'a_b'],
      ['a b', 'a_b'],
      ['1a'],
      ['_a'],
      ['ä'],
      [`a${'x'.repeat(40)}`],
    ] as const
  ).map(
    ([wrong, meant]) =>
      [
        things(`  "${wrong}": { type: string }`),
        `things.yaml:4:3  "${wrong}" ${name}${meant === undefined ? '' : `. Did you mean "${meant}"?`}`,
      ] as const,
  ),
  [things('  1: { type: string }'), `things.yaml:4:3  "1" ${name}`],
  [
    things('  constructor: { type: string }'),
    'things.yaml:4:3  "constructor" is a reserved name. Choose another field name.',
  ],
  [
    things('  expanded: { type: string }'),
    'things.yaml:4:3  "expanded" is a reserved name. Choose another field name.',
  ],
  [things('name: My things'), `things.yaml:4:7  name ${name}. Did you mean "my_things"?`],
  [things('singular: Thing'), `things.yaml:4:11  singular ${name}. Did you mean "thing"?`],
  [things('name: crm_users'), 'things.yaml:4:7  names that start with "crm_" are reserved for the engine'],
  [
    { 'events.yaml': head.join('\n') },
    'events.yaml:1:1  "events" is reserved for event subscriptions in profiles. Choose another name.',
  ],
  [
    { 'members.yaml': head.join('\n') },
    'members.yaml:1:1  "members" is reserved for members in profiles. Choose another name.',
  ],
  [
    things('  owner: { type: int64, nullable: true, assignable: true }'),
    'things.yaml:4:41  "assignable" needs "set: creator"',
  ],
  [
    { 'crm_x.yaml': head.join('\n') },
    'crm_x.yaml:1:1  names that start with "crm_" are reserved for the engine',
  ],
  [
    { ...things(), 'x.yaml': ['name: things', ...head].join('\n') },
    'things.yaml:1:1  two files define the resource "things"',
  ],
  // Shared fields.
  [things('common: some'), 'things.yaml:4:9  common must be "all" or a list of field names'],
  [things('common: [owner_id]'), 'things.yaml:4:10  unknown shared field "owner_id"'],
  [
    { ...shared, 'a.yaml': 'common: [id, organization_id, ownerid]\nfields: {}\n' },
    'a.yaml:1:31  unknown shared field "ownerid". Did you mean "owner_id"?',
  ],
  [
    { ...shared, 'a.yaml': 'common: all\nfields:\n  owner_id: { type: string }\n' },
    'a.yaml:3:3  "owner_id" is already a shared field',
  ],
  // Values for omitted fields.
  [
    things('  a: { type: date }'),
    'things.yaml:4:3  a date field needs "nullable: true", "required: true" or a default',
  ],
  [
    things('  a: { type: reference, to: things }'),
    'things.yaml:4:3  a reference needs "nullable: true", because it becomes null when its record is deleted',
  ],
  [things('  a: { type: int64, set: creator }'), 'things.yaml:4:21  "set" needs "read_only: true"'],
  [
    things('  a: { type: timestamp, read_only: true, set: creator }'),
    'things.yaml:4:42  "set: creator" needs "type: int64"',
  ],
  [
    things('  a: { type: string, required: true, nullable: true }'),
    `things.yaml:4:22  ${excluded('nullable')}`,
  ],
  [
    things('  a: { type: string, required: true, read_only: true }'),
    `things.yaml:4:22  ${excluded('read_only')}`,
  ],
  [things('  a: { type: string, required: true, default: x }'), `things.yaml:4:22  ${excluded('default')}`],
  [
    things('  a: { type: string, nullable: true, default: x }'),
    'things.yaml:4:38  "nullable" and "default" are mutually exclusive: remove one',
  ],
  // Strings.
  [
    things('  a: { type: string, enum: [x], suggested: [y] }'),
    'things.yaml:4:33  "enum" and "suggested" are mutually exclusive: remove one',
  ],
  [
    things('  a: { type: string, pattern: "(" }'),
    'things.yaml:4:22  "pattern" is not a valid RE2 regular expression: missing closing ): `(`',
  ],
  [
    things('  a: { type: string, pattern: (a)\\1 }'),
    'things.yaml:4:22  "pattern" is not a valid RE2 regular expression: invalid escape sequence: `\\1`',
  ],
  // Identity fields.
  [{ 'a.yaml': 'fields:\n  name: { type: string }\n' }, `a.yaml:1:1  ${identity}`, `a.yaml:1:1  ${tenant}`],
  [{ 'a.yaml': head.join('\n').replace(' id:', ' key:') }, `a.yaml:1:1  ${identity}`],
  [things('  a: { type: int64, read_only: true, set: organization }'), `things.yaml:1:1  ${tenant}`],
  [
    things('  due: { type: timestamp, nullable: true }', '  due_offset: { type: string }'),
    'things.yaml:5:3  "due_offset" needs the same column as "due". Rename one of the fields.',
  ],
  // References and joined fields.
  [things('  a: { type: reference, nullable: true }'), 'things.yaml:4:3  a reference field needs "to"'],
  [
    things('  a: { type: reference, nullable: true, to: thing }'),
    'things.yaml:4:45  unknown resource "thing". Did you mean "things"?',
  ],
  [
    things('  a: { type: joined }'),
    'things.yaml:4:3  a joined field needs "through"',
    'things.yaml:4:3  a joined field needs "show"',
  ],
  [
    things(link, '  a: { type: joined, through: q, show: [b] }', b),
    'things.yaml:5:31  "q" is not a reference field of this resource. Available: p',
  ],
  [
    things(b, '  a: { type: joined, through: b, show: [b] }'),
    'things.yaml:5:31  "b" is not a reference field of this resource',
  ],
  [
    things(link, '  a: { type: joined, through: p, show: [c, id] }', b),
    'things.yaml:5:40  "c" is not a text field of things. Available: b',
    'things.yaml:5:40  "id" is not a text field of things. Available: b',
  ],
  [
    things(
      link,
      '  a: { type: joined, through: p, show: [b], nullable: true, default: x, required: true }',
      b,
    ),
    'things.yaml:5:45  a joined field cannot have "nullable"',
    'things.yaml:5:61  a joined field cannot have "default"',
    'things.yaml:5:73  a joined field cannot have "required"',
  ],
  // Renames and retired fields.
  [
    things('  a: { type: string, renamed_from: a }'),
    'things.yaml:4:22  "a" is already the current name. Remove "renamed_from".',
  ],
  [
    things(
      '  a: { type: string, renamed_from: b, alias: true, deprecated: 2026-11-22 }',
      '  c: { type: string }',
    ),
    `things.yaml:4:39  "alias" needs dates. Add deprecated: 2026-11-22, sunset: ${inDays(180)}`,
  ],
  [
    things('  a: { type: string, alias: true, deprecated: 2026-11-22, sunset: 2026-11-21 }'),
    'things.yaml:4:22  "alias" needs "renamed_from"',
    'things.yaml:4:59  "sunset" must not be before "deprecated" (2026-11-22)',
  ],
  [
    things('  a: { type: string, renamed_from: b, sunset: 2026-11-22 }'),
    'things.yaml:4:39  "sunset" needs "alias: true"',
  ],
  [
    things('  a: { type: string, renamed_from: b, alias: true, deprecated: true }'),
    'things.yaml:4:64  deprecated must be a date, for example 2027-06-30, not true',
  ],
  [
    things('  a: { type: string, renamed_from: b, alias: true, deprecated: 2026-11-22, sunset: soon }'),
    'things.yaml:4:84  sunset must be a date, for example 2027-06-30',
  ],
  [
    things(`  a: { type: string, renamed_from: b, ${alias} }`, b),
    'things.yaml:4:22  "b" is also the name of a field. Remove the field or the alias.',
  ],
  [
    things('  a: { type: string, renamed_from: b }', '  b: { type: string }'),
    'things.yaml:4:22  the field "b" is still declared. Remove it, or "renamed_from" here.',
  ],
  [
    things('  a: { type: string, renamed_from: b }', '  b: { type: string, retired: true }'),
    'things.yaml:4:22  the field "b" is still declared. Remove it, or "renamed_from" here.',
  ],
  // Swapped names.
  [
    things('  a: { type: string, renamed_from: b }', '  b: { type: string, renamed_from: a }'),
    'things.yaml:4:22  the field "b" is still declared. Remove it, or "renamed_from" here.',
    'things.yaml:5:22  the field "a" is still declared. Remove it, or "renamed_from" here.',
  ],
  [
    { ...things('renamed_from: others'), 'others.yaml': head.join('\n') },
    'things.yaml:4:15  the resource "others" is still declared. Remove it, or "renamed_from" here.',
  ],
  [
    things('  a: { type: string, renamed_from: c }', '  b: { type: string, renamed_from: c }'),
    'things.yaml:5:22  "a" is already renamed from "c"',
  ],
  [
    { ...things(`renamed_from: others`, alias.replaceAll(', ', '\n')), 'others.yaml': head.join('\n') },
    'things.yaml:4:15  "others" is also the name of a resource. Remove the resource or the alias.',
  ],
  [
    things(`  a: { type: string, retired: true, renamed_from: c, ${alias} }`),
    'things.yaml:4:54  a retired field cannot have an alias',
  ],
  [
    things('  a: { type: int64, retired: true, read_only: true, set: creator }'),
    'things.yaml:4:21  a field with "set" cannot be retired',
  ],
  [
    things(link, '  a: { type: joined, through: p, show: [b], retired: true }', b),
    'things.yaml:5:45  a joined field has no stored values to keep. Remove the field instead.',
  ],
  [things('  a: { type: string, retired: true }', 'filters: [a]'), 'things.yaml:5:11  unknown field "a"'],
  // Lists.
  [
    things('  name: { type: text }', 'sort: { by: nam }'),
    'things.yaml:5:13  unknown field "nam". Did you mean "name"?',
  ],
  [
    things('  status: { type: string }', 'filters: [id, statuss]'),
    'things.yaml:5:15  unknown field "statuss". Did you mean "status"?',
  ],
  ...['org', 'page', 'sort', 'dir', 'cursor', 'q'].map(
    (name) =>
      [
        things(`  ${name}: { type: string }`, `filters: [${name}]`),
        `things.yaml:5:11  "${name}" is a reserved query parameter`,
      ] as const,
  ),
  // Syntax.
  ...(
    [
      [
        '{ type: string nullable: true }',
        '21',
        'missing comma before "nullable", or text that contains ": " needs quotes',
      ],
      ['{ type: string, enum: ["A" "B"] }', '33', 'missing comma before "B"'],
      [
        '{ type: string, description: Note: this }',
        '35',
        'text that contains ": " needs quotes: "Note: this"',
      ],
      ['{ type: string, description: @ada }', '35', 'text that starts with "@" needs quotes: "@ada"'],
      ['{ type: string, description: %x }', '35', 'text that starts with "%" needs quotes: "%x"'],
      ['{ type: string, description: `x` }', '35', 'text that starts with "`" needs quotes: "`x`"'],
      ['{ type: string, description: | }', '35', 'text that starts with "|" needs quotes: "|"'],
      [
        '{ type: string, description: !x }',
        '35',
        'tags (!x) are not allowed. Text that starts with "!" needs quotes.',
      ],
      [
        '{ type: string, description: *x }',
        '35',
        'aliases (*x) are not allowed. Text that starts with "*" needs quotes.',
      ],
      [
        '{ type: string, description: #1 }',
        '6',
        '"{" is not closed, because everything after # is a comment. Text that contains # needs quotes.',
      ],
      [
        '{ type: string, description: Hello, world }',
        '42',
        '"world" is read as a key without a value. Text that contains a comma needs quotes.',
      ],
      [
        '{ type: decimal(10,2) }',
        '25',
        '"2)" is read as a key without a value. Text that contains a comma needs quotes.',
      ],
      ['{ type: string[] }', '20', 'text that contains "[" needs quotes here'],
      ['{ type: string', '6', '"{" is never closed. Add "}".'],
      ['{ type: string, enum: [A, B }', '28', '"[" is never closed. Add "]".'],
      ['{ type: string }}', '22', '"}" has no matching opening bracket. Remove it.'],
      ['{ type: string, description: "x }', '35', 'the quote (") opened here is never closed'],
      ["{ type: string, description: 'x }", '35', "the quote (') opened here is never closed"],
      [
        "{ type: string, description: 'it's' }",
        '39',
        "unexpected text after the closing quote. Write an apostrophe in single quotes twice ('').",
      ],
      [
        '{ type: string, description: "a"b" }',
        '38',
        'unexpected text after the closing quote. Write a quote in double quotes as \\".',
      ],
      [
        '{ type: string, pattern: "\\d+" }',
        '32',
        '\\d is not a valid escape in double quotes. Write \\\\d, or use single quotes.',
      ],
      ['{ type: string, type: text }', '22', '"type" is a duplicate key. It is already set on line 4.'],
      ['{type:string}', '7', 'missing space after the colon in "type:string"'],
    ] as const
  ).map(
    ([field, column, message]) => [things(`  a: ${field}`), `things.yaml:4:${column}  ${message}`] as const,
  ),
  [
    things('  a: {', '    type: string', '    nullable: true', '  }'),
    'things.yaml:6:5  missing comma before "nullable"',
  ],
  [
    things('  a:', '    type: string', '    description: Note: this is'),
    'things.yaml:6:18  text that contains ": " needs quotes: "Note: this is"',
  ],
  [things('  a:{ type: string }'), 'things.yaml:4:3  missing space after the colon in "a:{ type"'],
  [things('  a:', '    type:string'), 'things.yaml:5:5  missing space after the colon in "type:string"'],
  [things('  a', '  b: { type: string }'), 'things.yaml:4:3  missing colon: "a" must be "key: value"'],
  [
    things('  - a: { type: string }'),
    'things.yaml:4:3  unexpected list item ("- "). A key and its value are expected here.',
  ],
  [
    things('    a: { type: string }'),
    'things.yaml:4:5  inconsistent indentation. Keys of the same map must start in the same column.',
  ],
  [
    things('\ta: { type: string }'),
    'things.yaml:4:1  this line is indented with a tab. YAML allows only spaces.',
  ],
  [
    things('  a:', '  \ttype: string'),
    'things.yaml:5:3  this line is indented with a tab. YAML allows only spaces.',
  ],
  [
    things('<<<<<<< HEAD', '  a: { type: string }', '=======', '  a: { type: text }', '>>>>>>> branch'),
    'things.yaml:4:1  unresolved merge conflict. Keep one side and delete the lines that start with <<<<<<<, ======= and >>>>>>>.',
  ],
  [
    things('---', 'fields: {}'),
    'things.yaml:4:1  a second document starts here. A file can have only one: delete this line.',
  ],
  [things('  [a, b]: { type: string }'), 'things.yaml:4:3  invalid YAML: map comment with trailing content'],
  [
    things(b, '  c: { type: text }', b),
    'things.yaml:6:3  "b" is a duplicate key. It is already set on line 4.',
  ],
  [
    things(
      '  a: { type: string, type: text }',
      '  b: { type: string, description: "\\y" }',
      '\tc: {}',
      '  d: @',
    ),
    'things.yaml:4:22  "type" is a duplicate key. It is already set on line 4.',
    'things.yaml:5:36  \\y is not a valid escape in double quotes. Write \\\\y, or use single quotes.',
    'things.yaml:6:1  this line is indented with a tab. YAML allows only spaces.',
  ],
  // Empty values.
  [{ 'things.yaml': '' }, 'things.yaml:1:1  the file must be a map with the key "fields", but is empty'],
  [
    { 'things.yaml': '# soon\n' },
    'things.yaml:1:1  the file must be a map with the key "fields", but is empty',
  ],
  [
    { 'things.yaml': 'fields' },
    'things.yaml:1:1  the file must be a map with the key "fields", not "fields"',
  ],
  [
    { 'things.yaml': '- fields' },
    'things.yaml:1:1  the file must be a map with the key "fields", not a list',
  ],
  [
    { 'things.yaml': 'fields:\n' },
    'things.yaml:1:8  fields must be a map of fields, for example name: { type: string }, but is empty',
  ],
  [
    { 'things.yaml': 'fields: [id]\n' },
    'things.yaml:1:9  fields must be a map of fields, for example name: { type: string }, not a list',
  ],
  [things('  a:'), 'things.yaml:4:5  a must be a map, for example { type: string }, but is empty'],
  [things('  a: ~'), 'things.yaml:4:6  a must be a map, for example { type: string }, but is empty'],
  [things('  a: string'), 'things.yaml:4:6  a must be a map, for example { type: string }, not "string"'],
  [things('  a: {}'), 'things.yaml:4:3  a needs "type"'],
  [things('  a: { type: }'), 'things.yaml:4:14  type must be a string, but is empty'],
  [
    things('  a: { type: string, description: }'),
    'things.yaml:4:35  description must be a string, but is empty',
  ],
  [
    things('  a: { type: string, default: null }'),
    'things.yaml:4:31  default must be a string, a number, true or false, but is empty. Use "nullable: true" without a default for null.',
  ],
  [things('description:'), 'things.yaml:4:13  description must be a string, but is empty'],
  [
    things('sort:'),
    'things.yaml:4:6  sort must be a map such as { by: created_at, direction: desc }, but is empty',
  ],
  // Values of the wrong type.
  [
    things('  a: { type: string, enum: [1, true] }'),
    'things.yaml:4:29  item 1 of enum must be a string, not 1. Write "1".',
    'things.yaml:4:32  item 2 of enum must be a string, not true. Write "true".',
  ],
  [
    things('  a: { type: string, enum: [A, ~] }'),
    'things.yaml:4:32  item 2 of enum must be a string, but is empty',
  ],
  [
    things('  a: { type: string, enum: Hot }'),
    'things.yaml:4:28  enum must be a list of at least one string, for example [ Hot, Cold ], not "Hot". Write [ Hot ].',
  ],
  [
    things('  a: { type: string, enum: { Hot: 1 } }'),
    'things.yaml:4:28  enum must be a list of at least one string, for example [ Hot, Cold ], not a map',
  ],
  [
    things('  a: { type: string, enum: [] }'),
    'things.yaml:4:28  enum must be a list of at least one string, for example [ Hot, Cold ]',
  ],
  [
    things('  a: { type: string, unique: yes }'),
    'things.yaml:4:30  unique must be true or false, not "yes". Write true.',
  ],
  [
    things('  a: { type: string, required: "false" }'),
    'things.yaml:4:32  required must be true or false, not "false". Write false.',
  ],
  [
    things('  a: { type: string, max_length: "255" }'),
    'things.yaml:4:34  max_length must be an integer from 1 to 1000000, not "255". Write 255 without quotes.',
  ],
  [
    things('  a: { type: string, max_length: 0 }'),
    'things.yaml:4:34  max_length must be an integer from 1 to 1000000',
  ],
  [
    things('  a: { type: string, description: 5 }'),
    'things.yaml:4:35  description must be a string, not 5. Write "5".',
  ],
  [
    things(`  a: { type: string, pattern: ${'x'.repeat(501)} }`),
    'things.yaml:4:31  pattern must have at most 500 characters',
  ],
  [things('  a: { type: [string, text] }'), 'things.yaml:4:14  type must be a string, not a list'],
  [
    things('sort: id desc'),
    'things.yaml:4:7  sort must be a map such as { by: created_at, direction: desc }, not "id desc"',
  ],
  [
    things('filters: id'),
    'things.yaml:4:10  filters must be a list, such as [ status, { field: created_at, operators: [ gte, lt ] } ], not "id". Write [ id ].',
  ],
  [
    things('filters: [7]'),
    'things.yaml:4:11  item 1 of filters must be a field, or { field: …, operators: [ … ] }, not 7',
  ],
  [things('filters: [{ field: id }]'), 'things.yaml:4:11  item 1 of filters needs "operators"'],
  [
    things('filters: [{ field: id, operators: eq }]'),
    'things.yaml:4:35  operators must be a list of operators, such as [ eq, in ], not "eq". Write [ eq ].',
  ],
  [
    things('search: id'),
    'things.yaml:4:9  search must be a list of fields, such as [ name, email ], not "id". Write [ id ].',
  ],
  [
    things(b, 'unique: b'),
    'things.yaml:5:9  unique must be [ a, b ], or [ [ a, b ], [ c, d ] ], with up to 4 fields each, not "b". Write [ b ].',
  ],
  [
    things(b, 'unique: [[b], b]'),
    'things.yaml:5:9  unique must be [ a, b ], or [ [ a, b ], [ c, d ] ], with up to 4 fields each',
  ],
  // Duplicates.
  [
    things('  a: { type: string, enum: [A, B, A, B] }'),
    'things.yaml:4:35  "A" is listed twice in enum',
    'things.yaml:4:38  "B" is listed twice in enum',
  ],
  [things('filters: [id, id]'), 'things.yaml:4:15  "id" is listed twice in filters'],
  [things('filters: [id, { field: id, operators: [in] }]'), 'things.yaml:4:15  "id" is declared twice'],
  [things(b, 'search: [b, b]'), 'things.yaml:5:13  "b" is listed twice in search'],
  [things(b, 'unique: [b, b]'), 'things.yaml:5:13  "b" is listed twice in unique'],
  [
    { ...shared, 'a.yaml': 'common: [id, organization_id, id]\nfields: {}\n' },
    'a.yaml:1:31  "id" is listed twice in common',
  ],
  [
    { 'a.yaml': ['singular: thing', ...head].join('\n'), 'b.yaml': ['singular: thing', ...head].join('\n') },
    'b.yaml:1:11  "thing" is already the singular of a (a.yaml). Set a different "singular".',
  ],
  [
    { 'thing.yaml': head.join('\n'), 'things.yaml': ['singular: thing', ...head].join('\n') },
    'things.yaml:1:11  "thing" is already the singular of thing (thing.yaml). Set a different "singular".',
  ],
  // Known values.
  [
    things('  a: { type: string, enum: [Hot, Warm], default: Freezing }'),
    'things.yaml:4:41  the default "Freezing" is not in "enum"',
  ],
  [
    things('  a: { type: string, enum: [Hot, Warm], default: hot }'),
    'things.yaml:4:41  the default "hot" is not in "enum". Did you mean "Hot"?',
  ],
  [
    things('  a: { type: string, enum: [Hot, hot, "Hot "] }'),
    'things.yaml:4:22  "hot" and "Hot" differ only in case or spaces: remove one',
    'things.yaml:4:22  "Hot " and "Hot" differ only in case or spaces: remove one',
  ],
  [
    things('  a: { type: string, suggested: [On Hold, on  hold] }'),
    'things.yaml:4:22  "on  hold" and "On Hold" differ only in case or spaces: remove one',
  ],
  // Words from other tools.
  ...(
    [
      ['varchar', 'Use "string", with "max_length" for a limit.'],
      ['varchar(255)', 'Use "string", with "max_length" for a limit.'],
      ['longtext', 'Use "text".'],
      ['email', 'Use "string", with "pattern" for the format.'],
      ['uuid', 'Use "string", with "pattern" for the format.'],
      ['int', 'Use "integer".'],
      ['bigint', 'Use "int64".'],
      ['decimal', 'Use "number", which is exact.'],
      ['bool', 'Use "boolean".'],
      ['datetime', 'Use "timestamp".'],
      ['enum', 'Use "string" with "enum: [ … ]".'],
      ['foreignKey', 'Use "reference" with "to: <resource>" and "nullable: true".'],
      ['has_many', 'Declare a reference in the other resource, and filter by it.'],
      [
        'formula',
        'Computed fields are not supported. Use "joined" to show text fields from a referenced record.',
      ],
      ['time', 'Use "timestamp" for a point in time, or "string" with "pattern" for a time of day.'],
      ['list', 'Lists are not supported. Declare another resource with a reference to this one.'],
      ['file', 'Files are not supported. Store the file elsewhere and its URL in a "string".'],
      ['json', 'Nested values are not supported. Declare a field for each value.'],
    ] as const
  ).map(
    ([type, use]) =>
      [things(`  a: { type: ${type} }`), `things.yaml:4:14  unknown type "${type}". ${use}`] as const,
  ),
  ...(
    [
      ['references: things', 'Use "type: reference" with "to: <resource>".'],
      ['length: 5', 'Use "max_length".'],
      ['not_null: true', 'Use "nullable: true" for a field that can be null.'],
      ['mandatory: true', 'Use "required: true".'],
      ['values: [a]', 'Use "enum: [ … ]".'],
      ['primary_key: true', 'The primary key is "id", which comes with "common: all".'],
      ['index: true', 'Add the field to "filters" or "search".'],
      ['label: A', 'Use "description".'],
      ['regex: x', 'Use "pattern".'],
      ['on_delete: cascade', 'A reference always becomes null when its record is deleted.'],
      ['min: 1', 'This limit is not supported.'],
    ] as const
  ).map(
    ([key, use]) =>
      [
        things(`  a: { type: string, ${key} }`),
        `things.yaml:4:22  unknown key "${key.split(':')[0]}". ${use}`,
      ] as const,
  ),
  ...(
    [
      ['columns: {}', 'Use "fields".'],
      ['order_by: id', 'Use "sort".'],
      ['table: x', 'Use "name", or rename the file.'],
      ['indexes: [id]', 'Indexes are created for "filters", "sort", "search" and "unique".'],
      ['unique_together: [id]', 'Use "unique: [ a, b ]".'],
      ['permissions: {}', 'Permissions belong to profiles, not to resources.'],
      ['a: { type: string }', 'Fields belong under "fields", indented by two spaces.'],
    ] as const
  ).map(
    ([key, use]) => [things(key), `things.yaml:4:1  unknown key "${key.split(':')[0]}". ${use}`] as const,
  ),
  ...(
    [
      ['equals', 'eq', 'Use "eq".'],
      ['between', 'gte and lte', 'Use "gte" and "lte".'],
      ['like', 'contains', 'Use "contains", or declare "search".'],
    ] as const
  ).map(
    ([word, , use]) =>
      [
        things(`filters: [{ field: id, operators: [${word}] }]`),
        `things.yaml:4:36  item 1 of operators must be one of ${operatorNames}. ${use}`,
      ] as const,
  ),
  [things('  a: { typ: string }'), 'things.yaml:4:8  unknown key "typ". Did you mean "type"?'],
  [
    things('  a: { type: string, maxLength: 3 }'),
    'things.yaml:4:22  unknown key "maxLength". Use "max_length".',
  ],
  [
    things('  a: { type: string, null: true }'),
    'things.yaml:4:22  unknown key "null". Use "nullable: true" for a field that can be null.',
  ],
  [
    things('  a: { type: integer, enum: [a] }'),
    'things.yaml:4:23  an integer field cannot have "enum". Use "type: string" for a list of values.',
  ],
  [
    things('  a: { type: reference, nullable: true, to: users }'),
    'things.yaml:4:45  unknown resource "users". Users are not a resource. For the creator of a record, use "type: int64" with "set: creator".',
  ],
  [
    things('  a: { type: reference, nullable: true, to: [a, b] }'),
    'things.yaml:4:45  to must be a string, not a list. Declare a reference field for each resource.',
  ],
  [
    things('filters: [price: [gte]]'),
    'things.yaml:4:11  unknown key "price". Write { field: price, operators: [ gte ] }.',
  ],
  [
    things('search: true'),
    'things.yaml:4:9  search must be a list of fields, such as [ name, email ], not true',
  ],
  [
    things('  a: { type: string, pattern: "[a" }'),
    'things.yaml:4:22  "pattern" is not a valid RE2 regular expression: missing closing ]: `[a`',
  ],
  [
    things('  a: { type: string, pattern: (?<=a)b }'),
    'things.yaml:4:22  "pattern" is not a valid RE2 regular expression: lookahead and lookbehind are not supported',
  ],
  [
    things('  a: { type: timestamp, default: now }'),
    'things.yaml:4:25  the default must be an RFC 3339 timestamp, such as 2026-03-01T09:30:00+01:00. A default is a fixed value. For the time of creation, use "created_at" from common.yaml.',
  ],
  [
    things('  a: { type: integer, default: "5" }'),
    'things.yaml:4:23  the default must be an integer from -2147483648 to 2147483647. Write 5 without quotes.',
  ],
  [
    { 'price-lists.yaml': head.join('\n') },
    `price-lists.yaml:1:1  the file name ${name}. Did you mean "price_lists"?`,
  ],
  [
    { 'common.yaml': head.join('\n'), 'a.yaml': 'fields: {}\n' },
    `a.yaml:1:1  ${identity}. Add "common: all".`,
    `a.yaml:1:1  ${tenant}. Add "common: all".`,
  ],
  // More columns than a table can have.
  [
    things(...Array.from({ length: 1_650 }, (_, index) => `  f${index}: { type: string }`)),
    'things.yaml:1:1  the fields need 1652 columns, but a PostgreSQL table can have only 1599. Split the resource.',
  ],
];
