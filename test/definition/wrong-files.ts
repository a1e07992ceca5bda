// Wrong files, each with what is told of it: one table, for what checks them and for the schemas of editors.
import { fieldTypes } from '../../engine/fields/field-types.ts';
import { operators } from '../../engine/query/operators.ts';

/** Texts by the names of their files. */
export type Files = Readonly<Record<string, string>>;

export const head = [
  'fields:',
  '  id: { type: int64, read_only: true, set: id }',
  '  organization_id: { type: int64, read_only: true, set: organization }',
];
/** A file whose further lines begin at line 4. */
export const things = (...lines: string[]): Files => ({ 'things.yaml': [...head, ...lines, ''].join('\n') });
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

const operatorNames = Object.keys(operators).join(', ');

/** Wrong files, and the lines told for them. */
export const wrongFiles: readonly (readonly [files: Files, ...lines: string[]])[] = [
  // Words.
  [things('  a: { type: interger }'), 'things.yaml:4:14  unknown type "interger". Did you mean "integer"?'],
  [things('  a: { type: money }'), 'things.yaml:4:14  unknown type "money": use "number", which is exact'],
  [things('  a: { nullable: true }'), 'things.yaml:4:3  a lacks "type"'],
  [
    things('  a: { type: text, nulable: true }'),
    'things.yaml:4:20  unknown key "nulable". Did you mean "nullable"?',
  ],
  [things('filter: []'), 'things.yaml:4:1  unknown key "filter". Did you mean "filters"?'],
  [things('colour: red'), 'things.yaml:4:1  unknown key "colour"'],
  [
    things('  a: { type: strong-box }'),
    `things.yaml:4:14  unknown type "strong-box": there are ${Object.keys(fieldTypes).join(', ')}`,
  ],
  [things('sort: { by: id, dir: desc }'), 'things.yaml:4:17  unknown key "dir"'],
  [things('sort: { by: id, direction: down }'), 'things.yaml:4:28  direction must be one of asc, desc'],
  [things('sort: { direction: asc }'), 'things.yaml:4:1  sort lacks "by"'],
  [{ 'things.yaml': 'singular: thing\n' }, 'things.yaml:1:1  the file lacks "fields"'],
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
  [things('  constructor: { type: string }'), 'things.yaml:4:3  "constructor" cannot be a field name'],
  [things('  expanded: { type: string }'), 'things.yaml:4:3  "expanded" cannot be a field name'],
  [things('name: My things'), `things.yaml:4:7  name ${name}. Did you mean "my_things"?`],
  [things('singular: Thing'), `things.yaml:4:11  singular ${name}. Did you mean "thing"?`],
  [things('name: crm_users'), 'things.yaml:4:7  names that begin with "crm_" are the platform\'s own'],
  [{ 'events.yaml': head.join('\n') }, 'events.yaml:1:1  "events" is what profiles call event subscriptions'],
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
    'things.yaml:5:31  no reference "q" here: there is p',
  ],
  [things(b, '  a: { type: joined, through: b, show: [b] }'), 'things.yaml:5:31  no reference "b" here'],
  [
    things(link, '  a: { type: joined, through: p, show: [c, id] }', b),
    'things.yaml:5:40  no text field "c" in things: there is b',
    'things.yaml:5:40  no text field "id" in things: there is b',
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
    things('  a: { type: string, renamed_from: b }', '  b: { type: string }'),
    'things.yaml:4:22  the field "b" is still declared. Remove it, or "renamed_from" here.',
  ],
  [
    things('  a: { type: string, renamed_from: b }', '  b: { type: string, retired: true }'),
    'things.yaml:4:22  the field "b" is still declared. Remove it, or "renamed_from" here.',
  ],
  // Names that are swapped.
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
        'a comma is missing before "nullable", or a text that contains ": " needs quotes',
      ],
      ['{ type: string, enum: ["A" "B"] }', '33', 'a comma is missing before "B"'],
      [
        '{ type: string, description: Note: this }',
        '35',
        'a text that contains ": " needs quotes: "Note: this"',
      ],
      ['{ type: string, description: @ada }', '35', 'a text that begins with "@" needs quotes: "@ada"'],
      ['{ type: string, description: %x }', '35', 'a text that begins with "%" needs quotes: "%x"'],
      ['{ type: string, description: `x` }', '35', 'a text that begins with "`" needs quotes: "`x`"'],
      ['{ type: string, description: | }', '35', 'a text that begins with "|" needs quotes: "|"'],
      [
        '{ type: string, description: !x }',
        '35',
        'tags (!x) are not allowed; a text that begins with "!" needs quotes',
      ],
      [
        '{ type: string, description: *x }',
        '35',
        'aliases (*x) are not allowed; a text that begins with "*" needs quotes',
      ],
      [
        '{ type: string, description: #1 }',
        '6',
        '"{" is not closed: what follows # is a comment, so a text that contains it needs quotes',
      ],
      [
        '{ type: string, description: Hello, world }',
        '42',
        '"world" is read as a key without a value; a text that contains a comma needs quotes',
      ],
      [
        '{ type: decimal(10,2) }',
        '25',
        '"2)" is read as a key without a value; a text that contains a comma needs quotes',
      ],
      ['{ type: string[] }', '20', 'a text that contains "[" needs quotes here'],
      ['{ type: string', '6', '"{" is not closed: "}" is missing'],
      ['{ type: string, enum: [A, B }', '28', '"[" is not closed: "]" is missing'],
      ['{ type: string }}', '22', '"}" closes nothing: take it out'],
      ['{ type: string, description: "x }', '35', 'a quote (") is opened here and never closed'],
      ["{ type: string, description: 'x }", '35', "a quote (') is opened here and never closed"],
      [
        "{ type: string, description: 'it's' }",
        '39',
        "text follows the closing quote: an apostrophe in single quotes is written twice ('')",
      ],
      [
        '{ type: string, description: "a"b" }',
        '38',
        'text follows the closing quote: a quote in double quotes is written \\"',
      ],
      [
        '{ type: string, pattern: "\\d+" }',
        '32',
        '\\d means nothing in double quotes: write \\\\d, or use single quotes',
      ],
      ['{ type: string, type: text }', '22', '"type" is given twice: it is in line 4 already'],
      ['{type:string}', '7', 'a space is missing after the colon of "type:string"'],
    ] as const
  ).map(
    ([field, column, message]) => [things(`  a: ${field}`), `things.yaml:4:${column}  ${message}`] as const,
  ),
  [
    things('  a: {', '    type: string', '    nullable: true', '  }'),
    'things.yaml:6:5  a comma is missing before "nullable"',
  ],
  [
    things('  a:', '    type: string', '    description: Note: this is'),
    'things.yaml:6:18  a text that contains ": " needs quotes: "Note: this is"',
  ],
  [things('  a:{ type: string }'), 'things.yaml:4:3  a space is missing after the colon of "a:{ type"'],
  [things('  a:', '    type:string'), 'things.yaml:5:5  a space is missing after the colon of "type:string"'],
  [
    things('  a', '  b: { type: string }'),
    'things.yaml:4:3  a colon and a space are missing: "a" is no key: value',
  ],
  [
    things('  - a: { type: string }'),
    'things.yaml:4:3  a list item ("- ") is here, where a key and its value are expected',
  ],
  [
    things('    a: { type: string }'),
    'things.yaml:4:5  this line is indented otherwise than those next to it: keys that belong together begin in one column',
  ],
  [things('\ta: { type: string }'), 'things.yaml:4:1  a tab indents this line: YAML takes spaces only'],
  [things('  a:', '  \ttype: string'), 'things.yaml:5:3  a tab indents this line: YAML takes spaces only'],
  [
    things('<<<<<<< HEAD', '  a: { type: string }', '=======', '  a: { type: text }', '>>>>>>> branch'),
    'things.yaml:4:1  a merge conflict is left here: keep one side, and take out the lines that begin with <<<<<<<, ======= and >>>>>>>',
  ],
  [
    things('---', 'fields: {}'),
    'things.yaml:4:1  a second document begins here: a file holds one, so take this line out',
  ],
  [
    things('  [a, b]: { type: string }'),
    'things.yaml:4:3  this is no YAML: map comment with trailing content',
  ],
  [things(b, '  c: { type: text }', b), 'things.yaml:6:3  "b" is given twice: it is in line 4 already'],
  [
    things(
      '  a: { type: string, type: text }',
      '  b: { type: string, description: "\\y" }',
      '\tc: {}',
      '  d: @',
    ),
    'things.yaml:4:22  "type" is given twice: it is in line 4 already',
    'things.yaml:5:36  \\y means nothing in double quotes: write \\\\y, or use single quotes',
    'things.yaml:6:1  a tab indents this line: YAML takes spaces only',
  ],
  // Nothing where something belongs.
  [
    { 'things.yaml': '' },
    'things.yaml:1:1  the file must be a map with the key "fields", but nothing is there',
  ],
  [
    { 'things.yaml': '# soon\n' },
    'things.yaml:1:1  the file must be a map with the key "fields", but nothing is there',
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
    'things.yaml:1:8  fields must be a map of fields, such as name: { type: string }, but nothing is there',
  ],
  [
    { 'things.yaml': 'fields: [id]\n' },
    'things.yaml:1:9  fields must be a map of fields, such as name: { type: string }, not a list',
  ],
  [things('  a:'), 'things.yaml:4:5  a must be a map such as { type: string }, but nothing is there'],
  [things('  a: ~'), 'things.yaml:4:6  a must be a map such as { type: string }, but nothing is there'],
  [things('  a: string'), 'things.yaml:4:6  a must be a map such as { type: string }, not "string"'],
  [things('  a: {}'), 'things.yaml:4:3  a lacks "type"'],
  [things('  a: { type: }'), 'things.yaml:4:14  type must be a text, but nothing is there'],
  [
    things('  a: { type: string, description: }'),
    'things.yaml:4:35  description must be a text, but nothing is there',
  ],
  [
    things('  a: { type: string, default: null }'),
    'things.yaml:4:31  default must be a text, a number, true or false, but nothing is there',
  ],
  [things('description:'), 'things.yaml:4:13  description must be a text, but nothing is there'],
  [
    things('sort:'),
    'things.yaml:4:6  sort must be a map such as { by: created_at, direction: desc }, but nothing is there',
  ],
  // Values of another type.
  [
    things('  a: { type: string, enum: [1, true] }'),
    'things.yaml:4:29  item 1 of enum must be a text, not 1: write "1"',
    'things.yaml:4:32  item 2 of enum must be a text, not true: write "true"',
  ],
  [
    things('  a: { type: string, enum: [A, ~] }'),
    'things.yaml:4:32  item 2 of enum must be a text, but nothing is there',
  ],
  [
    things('  a: { type: string, enum: Hot }'),
    'things.yaml:4:28  enum must be a list of at least one text, such as [ Hot, Cold ], not "Hot": write [ Hot ]',
  ],
  [
    things('  a: { type: string, enum: { Hot: 1 } }'),
    'things.yaml:4:28  enum must be a list of at least one text, such as [ Hot, Cold ], not a map',
  ],
  [
    things('  a: { type: string, enum: [] }'),
    'things.yaml:4:28  enum must be a list of at least one text, such as [ Hot, Cold ]',
  ],
  [
    things('  a: { type: string, unique: yes }'),
    'things.yaml:4:30  unique must be true or false, not "yes": write true',
  ],
  [
    things('  a: { type: string, required: "false" }'),
    'things.yaml:4:32  required must be true or false, not "false": write false',
  ],
  [
    things('  a: { type: string, max_length: "255" }'),
    'things.yaml:4:34  max_length must be an integer from 1 to 1000000, not "255": write 255, without quotes',
  ],
  [
    things('  a: { type: string, max_length: 0 }'),
    'things.yaml:4:34  max_length must be an integer from 1 to 1000000',
  ],
  [
    things('  a: { type: string, description: 5 }'),
    'things.yaml:4:35  description must be a text, not 5: write "5"',
  ],
  [
    things(`  a: { type: string, pattern: ${'x'.repeat(501)} }`),
    'things.yaml:4:31  pattern must have at most 500 characters',
  ],
  [things('  a: { type: [string, text] }'), 'things.yaml:4:14  type must be a text, not a list'],
  [
    things('sort: id desc'),
    'things.yaml:4:7  sort must be a map such as { by: created_at, direction: desc }, not "id desc"',
  ],
  [
    things('filters: id'),
    'things.yaml:4:10  filters must be a list, such as [ status, { field: created_at, operators: [ gte, lt ] } ], not "id": write [ id ]',
  ],
  [
    things('filters: [7]'),
    'things.yaml:4:11  item 1 of filters must be a field, or { field: …, operators: [ … ] }, not 7',
  ],
  [things('filters: [{ field: id }]'), 'things.yaml:4:11  item 1 of filters lacks "operators"'],
  [
    things('filters: [{ field: id, operators: eq }]'),
    'things.yaml:4:35  operators must be a list of operators, such as [ eq, in ], not "eq": write [ eq ]',
  ],
  [
    things('search: id'),
    'things.yaml:4:9  search must be a list of fields, such as [ name, email ], not "id": write [ id ]',
  ],
  [
    things(b, 'unique: b'),
    'things.yaml:5:9  unique must be [ a, b ], or [ [ a, b ], [ c, d ] ], of up to 4 fields each, not "b": write [ b ]',
  ],
  [
    things(b, 'unique: [[b], b]'),
    'things.yaml:5:9  unique must be [ a, b ], or [ [ a, b ], [ c, d ] ], of up to 4 fields each',
  ],
  // The same thing twice.
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
    'b.yaml:1:11  "thing" is one record of a (a.yaml) already: give another "singular"',
  ],
  [
    { 'thing.yaml': head.join('\n'), 'things.yaml': ['singular: thing', ...head].join('\n') },
    'things.yaml:1:11  "thing" is one record of thing (thing.yaml) already: give another "singular"',
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
    'things.yaml:4:22  "hot" and "Hot" differ only in capitals or spaces: keep one',
    'things.yaml:4:22  "Hot " and "Hot" differ only in capitals or spaces: keep one',
  ],
  [
    things('  a: { type: string, suggested: [On Hold, on  hold] }'),
    'things.yaml:4:22  "on  hold" and "On Hold" differ only in capitals or spaces: keep one',
  ],
  // Words of other tools.
  ...(
    [
      ['varchar', 'use "string", with "max_length" for a limit'],
      ['varchar(255)', 'use "string", with "max_length" for a limit'],
      ['longtext', 'use "text"'],
      ['email', 'use "string", with "pattern" for a form'],
      ['uuid', 'use "string", with "pattern" for a form'],
      ['int', 'use "integer"'],
      ['bigint', 'use "int64"'],
      ['decimal', 'use "number", which is exact'],
      ['bool', 'use "boolean"'],
      ['datetime', 'use "timestamp"'],
      ['enum', 'use "string" with "enum: [ … ]"'],
      ['foreignKey', 'use "reference" with "to: <resource>" and "nullable: true"'],
      ['has_many', 'put a reference into the other resource, and filter by it'],
      ['formula', 'use "joined" for the text of a record that a reference is to'],
      ['json', 'there is none: give each value a field'],
    ] as const
  ).map(
    ([type, use]) =>
      [things(`  a: { type: ${type} }`), `things.yaml:4:14  unknown type "${type}": ${use}`] as const,
  ),
  ...(
    [
      ['references: things', 'use "type: reference" with "to: <resource>"'],
      ['length: 5', 'use "max_length"'],
      ['not_null: true', 'use "nullable: true" for a field that may be null'],
      ['mandatory: true', 'use "required: true"'],
      ['values: [a]', 'use "enum: [ … ]"'],
      ['primary_key: true', '"id" is the key; it comes with "common"'],
      ['index: true', 'list the field in "filters" or "search" of the resource'],
      ['label: A', 'use "description"'],
      ['regex: x', 'use "pattern"'],
      ['on_delete: cascade', 'a reference becomes null when its record is deleted'],
      ['min: 1', 'there is no such limit'],
    ] as const
  ).map(
    ([key, use]) =>
      [
        things(`  a: { type: string, ${key} }`),
        `things.yaml:4:22  unknown key "${key.split(':')[0]}": ${use}`,
      ] as const,
  ),
  ...(
    [
      ['columns: {}', 'use "fields"'],
      ['order_by: id', 'use "sort"'],
      ['table: x', 'use "name", or the name of the file'],
      ['indexes: [id]', 'indexes follow from "filters", "sort", "search" and "unique"'],
      ['unique_together: [id]', 'use "unique: [ a, b ]"'],
      ['permissions: {}', 'profiles say who may do what'],
      ['a: { type: string }', 'fields belong under "fields", indented by two spaces'],
    ] as const
  ).map(
    ([key, use]) => [things(key), `things.yaml:4:1  unknown key "${key.split(':')[0]}": ${use}`] as const,
  ),
  ...(
    [
      ['equals', 'eq', 'use eq'],
      ['between', 'gte and lte', 'use gte and lte'],
      ['like', 'contains', 'use contains, or "search" of the resource'],
    ] as const
  ).map(
    ([word, , use]) =>
      [
        things(`filters: [{ field: id, operators: [${word}] }]`),
        `things.yaml:4:36  item 1 of operators must be one of ${operatorNames}: ${use}`,
      ] as const,
  ),
  [things('  a: { typ: string }'), 'things.yaml:4:8  unknown key "typ". Did you mean "type"?'],
  [
    things('  a: { type: string, maxLength: 3 }'),
    'things.yaml:4:22  unknown key "maxLength": use "max_length"',
  ],
  // More than a table can have.
  [
    things(...Array.from({ length: 1_650 }, (_, index) => `  f${index}: { type: string }`)),
    'things.yaml:1:1  the fields need 1652 columns, and a table of PostgreSQL has room for 1599: divide the resource',
  ],
];
