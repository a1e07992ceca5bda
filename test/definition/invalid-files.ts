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
/** Quotes with lines that require a quote. */
const lines = {
  'lines.yaml':
    'common: [id, organization_id]\nfields:\n  quote_id: { type: reference, to: quotes, required: true }\n',
  'quotes.yaml': 'common: [id, organization_id]\nfields: {}\n',
};
const quotes = { 'quotes.yaml': `${head.join('\n')}\n` };
const name = 'must be a lowercase letter followed by up to 39 letters, digits or underscores';
const children = 'a map of at most 20 lists, for example lines: { of: quote_lines, by: quote_id }';
const period = 'a period from 1 day to 3650 days, for example 30 days';
const scopes = 'a map of at most 20 conditions, for example own: owner_id == me';
const excluded = (key: string) => `"required" and "${key}" are mutually exclusive: remove one`;
const identity = 'exactly one field must have "set: id", and its name must be "id"';
const tenant = 'exactly one field must have "set: organization", and its name must be "organization_id"';

const alias = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

const operatorNames = Object.keys(operators).join(', ');

const computableTypes = 'number, integer, int64, boolean, or money with a fixed currency';
const rollupTypes = 'number, integer, int64, date, timestamp, or money with a fixed currency';
/** Returns quotes with a rollup of their lines. */
const rolledUp = (
  type: string,
  values: string,
  link = 'of: lines, by: quote_id',
  ofLines = '',
  ...ofQuotes: readonly string[]
): Files => ({
  'lines.yaml': [
    'common: [id, organization_id]',
    'fields:',
    '  quote_id: { type: reference, to: quotes, nullable: true }',
    '  name: { type: string }',
    '  amount: { type: number }',
    '  position: { type: integer }',
    '  due: { type: date, nullable: true }',
    '  price: { type: money, currency: EUR, nullable: true }',
    '  deposit: { type: money, currency: any, nullable: true }',
    '  margin: { type: number, group: finance }',
    ofLines,
  ].join('\n'),
  'common.yaml': head.join('\n'),
  'quotes.yaml': [
    'singular: quote',
    'common: [id, organization_id]',
    'fields:',
    `  a: { type: ${type}, rollup: { ${values}, ${link} } }`,
    ...ofQuotes,
    '',
  ].join('\n'),
});

/** Invalid files and the expected messages. */
export const wrongFiles: readonly (readonly [files: Files, ...lines: string[]])[] = [
  [things('  a: { type: references }'), 'things.yaml:4:3  a references field needs "to"'],
  [
    things('  a: { type: references, to: thing }'),
    'things.yaml:4:30  unknown resource "thing". Did you mean "things"?',
  ],
  [
    things('  a: { type: references, to: things, nullable: true }'),
    'things.yaml:4:38  a references field cannot have "nullable", because an empty list is a valid value',
  ],
  [
    things('  a: { type: references, to: things, required: true }'),
    'things.yaml:4:38  a references field cannot have "required", because an empty list is a valid value',
  ],
  [
    things('  a: { type: references, to: things, default: "1" }'),
    'things.yaml:4:38  a references field cannot have "default", because an empty list is a valid value',
  ],
  [
    things('  a: { type: references, to: things, on_delete: cascade }'),
    'things.yaml:4:38  a references field cannot have "on_delete: cascade". Use "clear" or "restrict".',
  ],
  [
    things('  a: { type: references, to: things }', 'sort: { by: a, direction: asc }'),
    'things.yaml:5:13  cannot sort by references fields',
  ],
  [
    things('  a: { type: references, to: things, unique: true }'),
    'things.yaml:4:38  a references field cannot be unique',
  ],
  [
    things(b, '  p: { type: references, to: things }', '  j: { type: joined, through: p, show: [b] }'),
    'things.yaml:6:31  "p" is not a reference field of this resource',
  ],
  [
    things('  a: { type: references, to: things }', 'filters: [{ field: a, operators: [gt, is_null] }]'),
    'things.yaml:5:35  references fields cannot be used as filters with "gt"',
    'things.yaml:5:39  "is_null" requires a field with "nullable: true"',
  ],
  // Labels and screens.
  [
    things('  a: { type: string, label: " A" }'),
    'things.yaml:4:29  label must be a text of 1 to 60 characters without spaces at its ends',
  ],
  [things('  a: { type: string, help: "" }'), 'things.yaml:4:28  help must not be empty'],
  [things('label: { several: A }'), 'things.yaml:4:10  unknown key "several"'],
  [
    things('label: {}'),
    'things.yaml:4:8  label must be a label, or a map such as { one: Loft, many: Lofts }',
  ],
  [
    things('label: { one: 7 }'),
    'things.yaml:4:15  one must be a text of 1 to 60 characters without spaces at its ends, not 7. Write "7".',
  ],
  [things('screen: { colums: [id] }'), 'things.yaml:4:11  unknown key "colums". Did you mean "columns"?'],
  [things('screen: { title: [nam] }', ''), 'things.yaml:4:19  unknown field "nam"'],
  [things(b, 'screen: { columns: [id, bb] }'), 'things.yaml:5:25  unknown field "bb". Did you mean "b"?'],
  [
    things(link, 'screen: { title: [id, p] }'),
    'things.yaml:5:23  a reference field cannot be part of a title',
  ],
  [
    things('  u: { type: user, nullable: true }', 'screen: { title: [u] }'),
    'things.yaml:5:19  a user field cannot be part of a title',
  ],
  [
    things('  o: { type: int64, read_only: true, set: creator }', 'screen: { title: [o] }'),
    'things.yaml:5:19  a user field cannot be part of a title',
  ],
  [
    things(b, 'screen: { board: b }'),
    'things.yaml:5:18  "b" needs "enum", because each value is a column of the board',
  ],
  [
    things('  a: { type: string, suggested: [x] }', 'filters: [a]', 'screen: { board: a }'),
    'things.yaml:6:18  "a" needs "enum", because each value is a column of the board',
  ],
  [
    things('  a: { type: list, of: string, enum: [x, y] }', 'filters: [a]', 'screen: { board: a }'),
    'things.yaml:6:18  "a" is a list, but a record can only be in one column of the board. Choose a string field with "enum".',
  ],
  [
    things('  a: { type: string, enum: [x, y] }', 'screen: { board: a }'),
    'things.yaml:5:18  the board needs "a" in "filters", with the operator "eq"',
  ],
  [
    things(
      '  a: { type: string, enum: [x, y] }',
      'filters: [{ field: a, operators: [in] }]',
      'screen: { board: a }',
    ),
    'things.yaml:6:18  the board needs "a" in "filters", with the operator "eq"',
  ],
  [
    things(b, 'filters: { remove: [b] }'),
    'things.yaml:5:10  filters must be a list, such as [ status, { field: created_at, operators: [ gte, lt ] } ], not a map',
  ],
  // Retired resources.
  [
    {
      ...things(link),
      'others.yaml': [
        ...head,
        '  thing_id: { type: reference, to: things, nullable: true }',
        'retired: true',
        '',
      ].join('\n'),
      'things.yaml': [...head, 'retired: true', ''].join('\n'),
      'users.yaml': [...head, '  t: { type: reference, to: things, nullable: true }', ''].join('\n'),
    },
    'users.yaml:4:29  things is retired, so records cannot refer to it. Retire this field, too.',
  ],
  // Unknown and misspelled words.
  [things('  a: { type: interger }'), 'things.yaml:4:14  unknown type "interger". Did you mean "integer"?'],
  [
    things('  a: { type: decimal }'),
    'things.yaml:4:14  unknown type "decimal". Use "number", which is exact.',
  ],
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
    { 'fields.yaml': head.join('\n') },
    'fields.yaml:1:1  "fields" is reserved for custom fields in profiles. Choose another name.',
  ],
  [
    things('  owner: { type: int64, nullable: true, assignable: true }'),
    'things.yaml:4:41  "assignable" needs "set: creator"',
  ],
  [things('  owner_id: { assignable: true }'), 'things.yaml:4:3  owner_id needs "type"'],
  [
    { 'crm_x.yaml': head.join('\n') },
    'crm_x.yaml:1:1  names that start with "crm_" are reserved for the engine',
  ],
  [
    { 'pg_x.yaml': head.join('\n') },
    'pg_x.yaml:1:1  names that start with "pg_" are reserved for PostgreSQL',
  ],
  [
    { ...things(), 'x.yaml': ['name: things', ...head].join('\n') },
    'things.yaml:1:1  two files define the resource "things"',
  ],
  // Shared fields.
  [things('common: some'), 'things.yaml:4:9  common must be "all", "none" or a list of field names'],
  [things('common: [owner_id]'), 'things.yaml:4:10  unknown shared field "owner_id"'],
  [
    { ...shared, 'a.yaml': 'common: [id, organization_id, ownerid]\nfields: {}\n' },
    'a.yaml:1:31  unknown shared field "ownerid". Did you mean "owner_id"?',
  ],
  [
    { ...shared, 'a.yaml': 'common: all\nfields:\n  owner_id: { type: string }\n' },
    'a.yaml:3:3  "owner_id" is already a shared field',
  ],
  [
    { ...shared, 'a.yaml': 'common: all\nfields:\n  owner_id: { assignable: true, sensitive: true }\n' },
    'a.yaml:3:3  owner_id needs "type"',
  ],
  // Values for omitted fields.
  [
    things('  a: { type: date }'),
    'things.yaml:4:3  a date field needs "nullable: true", "required: true" or a default',
  ],
  [
    things('  a: { type: reference, to: things }'),
    'things.yaml:4:3  a reference needs "nullable: true" or "required: true"',
  ],
  [
    things('  a: { type: reference, to: things, required: true, nullable: true, on_delete: restrict }'),
    `things.yaml:4:37  ${excluded('nullable')}`,
  ],
  [
    things('  a: { type: reference, to: things, required: true, on_delete: restrict }'),
    'things.yaml:4:47  no record could be created, because required references go from things back to things. Make one of them nullable.',
  ],
  [
    { ...shared, ...lines },
    'lines.yaml:3:44  a required reference cannot become null when its record is deleted. Use "on_delete: restrict" or "on_delete: cascade".',
  ],
  [
    { ...shared, 'lines.yaml': lines['lines.yaml'].replace('true }', 'true, on_delete: clear }') },
    'lines.yaml:3:60  a required reference cannot become null when its record is deleted. Use "on_delete: restrict" or "on_delete: cascade".',
  ],
  [
    {
      ...shared,
      'lines.yaml': lines['lines.yaml'].replace('true }', 'true, on_delete: cascade }'),
      'quotes.yaml':
        'common: [id, organization_id]\nfields:\n  line_id: { type: reference, to: lines, required: true, on_delete: restrict }\n',
    },
    'lines.yaml:3:54  no record could be created, because required references go from quotes back to lines. Make one of them nullable.',
    'quotes.yaml:3:52  no record could be created, because required references go from lines back to quotes. Make one of them nullable.',
  ],
  [
    things('  a: { type: string, on_delete: cascade }'),
    'things.yaml:4:22  a string field cannot have "on_delete"',
  ],
  [
    things('  a: { type: reference, to: things, nullable: true, on_delete: nullify }'),
    'things.yaml:4:64  on_delete must be one of clear, restrict, cascade',
  ],
  [things('  a: { type: user }'), 'things.yaml:4:3  a user field needs "nullable: true" or "required: true"'],
  [
    things('  a: { type: user, required: false, default: 7 }'),
    'things.yaml:4:37  a user field cannot have "default"',
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
  [
    things('  due: { type: timestamp, nullable: true, retired: true }', '  due_offset: { type: string }'),
    'things.yaml:4:3  "due" needs the same column as "due_offset". Rename one of the fields.',
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
  [
    things(
      link,
      '  a: { type: joined, through: p, show: [b], default_from: b, unique: true, assignable: true }',
      b,
    ),
    'things.yaml:5:45  a joined field cannot have "default_from"',
    'things.yaml:5:62  a joined field cannot have "unique"',
    'things.yaml:5:76  a joined field cannot have "assignable"',
  ],
  [
    things(link, '  a: { type: joined, through: p, show: [b], unique: true }', b),
    'things.yaml:5:45  a joined field cannot have "unique"',
  ],
  [
    things(link, '  a: { type: joined, through: p, show: [b], set: id }', b),
    'things.yaml:5:45  a joined field cannot have "set"',
    'things.yaml:5:45  "set: id" needs "type: int64"',
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
    { ...things('renamed_from: others'), 'items.yaml': [...head, 'renamed_from: others'].join('\n') },
    'things.yaml:4:15  "items" is already renamed from "others"',
  ],
  [
    {
      'lines.yaml': `retired: true\n${lines['lines.yaml'].replace('required', 'nullable')}`,
      'quotes.yaml':
        'common: [id, organization_id]\nfields:\n  a: { type: integer, rollup: { count: true, of: lines, by: quote_id } }\nchildren: { rows: { of: lines, by: quote_id } }\n',
      'common.yaml': head.join('\n'),
    },
    'quotes.yaml:3:50  lines is retired. Remove the field.',
    'quotes.yaml:4:25  lines is retired. Remove the list.',
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
  [
    things('  a: { type: reference, to: thing, nullable: true, retired: true }'),
    'things.yaml:4:29  unknown resource "thing". Did you mean "things"?',
  ],
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
    'things.yaml:4:31  default must be a value, for example New, 0 or { amount: 0, currency: EUR }, but is empty. Use "nullable: true" without a default for null.',
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
    things('filters: [{ field: id, operators: [eq], index: 7 }]'),
    'things.yaml:4:48  index must be true or false, not 7',
  ],
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
    things('  a: { type: string }', b, 'unique: [[a, b], [b, a]]'),
    'things.yaml:6:18  these fields are already unique',
  ],
  [
    things('  a: { type: string, unique: true }', b, 'unique: [a]'),
    'things.yaml:6:9  these fields are already unique',
  ],
  [
    things('  a: { type: integer, unique: true }', b, 'unique: [[a, b]]'),
    'things.yaml:4:23  only one record could have the default of "a". Add "nullable: true" or "required: true".',
  ],
  [
    things('  a: { type: integer }', 'unique: [a]'),
    'things.yaml:5:10  only one record could have the default of "a". Add "nullable: true" or "required: true".',
  ],
  [
    things('  a: { type: integer, read_only: true }', b, 'unique: [[b, a]]'),
    'things.yaml:6:14  "a" is read-only and cannot be unique, because callers could not fix a duplicate value',
  ],
  [
    things(
      '  owner_id: { type: int64, read_only: true, set: creator, assignable: true }',
      b,
      'unique: [[b, owner_id]]',
    ),
    'things.yaml:6:14  "owner_id" is assignable and cannot be unique',
  ],
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
      ['Single line text', 'Use "string", with "max_length" for a limit.'],
      ['longtext', 'Use "text".'],
      ['email', 'Use "string" with "format: email".'],
      ['tel', 'Use "string" with "format: phone".'],
      ['uuid', 'Use "string", with "pattern" for the format.'],
      ['int', 'Use "integer".'],
      ['bigint', 'Use "int64".'],
      ['decimal', 'Use "number", which is exact.'],
      ['bool', 'Use "boolean".'],
      ['datetime', 'Use "timestamp".'],
      ['enum', 'Use "string" with "enum: [ … ]".'],
      ['foreignKey', 'Use "reference" with "to: <resource>" and "nullable: true".'],
      ['has_many', 'Declare a reference in the other resource, and filter by it.'],
      ['formula', 'Use the type of the values, for example "number", with "computed: price / area".'],
      ['time', 'Use "timestamp" for a point in time, or "string" with "pattern" for a time of day.'],
      ['array', 'Use "list", with "of" for the type of its values.'],
      ['file', 'Files are not supported. Store the file elsewhere and its URL in a "string".'],
      ['jsonb', 'Use "json".'],
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
      ['title: A', 'Use "label".'],
      ['help_text: A', 'Use "help".'],
      ['comment: A', 'Use "description".'],
      ['regex: x', 'Use "pattern".'],
      ['ondelete: cascade', 'Use "on_delete: clear", "on_delete: restrict" or "on_delete: cascade".'],
      ['minimum: 1', 'Use "min".'],
      ['minlength: 1', 'Use "min_length".'],
      ['error_message: No.', 'Use "message".'],
      ['precision: 1', 'This limit is not supported.'],
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
      ['title: A', 'Use "label".'],
      [
        'hidden: true',
        'Use "retired: true", or "screen: { hidden: true }" to hide it only from the navigation.',
      ],
      ['board: id', 'Use "screen".'],
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
  // Rules.
  [things('  a: { type: string, min: 1 }'), 'things.yaml:4:22  a string field cannot have "min"'],
  [
    things('  a: { type: integer, min_length: 1 }'),
    'things.yaml:4:23  an integer field cannot have "min_length"',
  ],
  [things('  a: { type: number, min: "1" }'), 'things.yaml:4:27  min must be a number, not "1"'],
  [
    things('  a: { type: integer, min: 0.5, nullable: true }'),
    'things.yaml:4:23  "min" of an integer field must be an integer',
  ],
  [
    things('  a: { type: int64, max: 9007199254740993 }'),
    'things.yaml:4:21  "max" must be between -(2^53 - 1) and 2^53 - 1',
  ],
  [things('  a: { type: number, max: .inf }'), 'things.yaml:4:27  max must be a number, not Infinity'],
  [
    things('  a: { type: number, min: 3, max: 2, nullable: true }'),
    'things.yaml:4:22  "min" (3) is greater than "max" (2)',
  ],
  [
    things('  a: { type: string, min_length: 3, max_length: 2 }'),
    'things.yaml:4:22  "min_length" (3) is greater than "max_length" (2)',
  ],
  [
    things('  a: { type: number, min: 1 }'),
    'things.yaml:4:22  the value is 0 if it is omitted, which is less than "min". Add a default, "nullable: true" or "required: true".',
  ],
  [
    things('  a: { type: int64, max: -1 }'),
    'things.yaml:4:21  the value is 0 if it is omitted, which is greater than "max". Add a default, "nullable: true" or "required: true".',
  ],
  [things('  a: { type: number, min: 1, default: 0 }'), 'things.yaml:4:30  the default must be at least 1'],
  [
    things('  a: { type: string, message: No. }'),
    'things.yaml:4:22  "message" needs a rule, for example "max" or "pattern"',
  ],
  [
    things('  a: { type: int64, read_only: true, set: editor, min: 1 }'),
    'things.yaml:4:51  a field with "set" cannot have "min"',
  ],
  [
    things('  a: { type: string, format: mail }'),
    'things.yaml:4:30  format must be one of email, url, phone, iana_timezone, iban, country, currency. Did you mean "email"?',
  ],
  [things('  a: { type: int64, format: phone }'), 'things.yaml:4:21  an int64 field cannot have "format"'],
  [
    things('  a: { type: string, format: email, lookup: digits }'),
    'things.yaml:4:37  "lookup: digits" and "format: email" compare values differently. Remove "lookup", or use "lookup: caseless".',
  ],
  [
    things('  a: { type: string, format: email, default: none }'),
    'things.yaml:4:37  the default must be an email address',
  ],
  // Lists, money and documents.
  [things('  a: { type: string, of: integer }'), 'things.yaml:4:22  a string field cannot have "of"'],
  [
    things('  a: { type: list, items: string }'),
    'things.yaml:4:20  unknown key "items". Use "of" for the type of the values of a list.',
  ],
  [
    things(
      '  a: { type: string, enum: [open, paid], closed: true, default: open }',
      'scopes: { x: a == paid, y: open != a, z: a == b }',
    ),
    'things.yaml:5:19  unknown field "paid". Write "paid" in quotes.',
    'things.yaml:5:28  unknown field "open". Write "open" in quotes.',
    'things.yaml:5:47  unknown field "b". Available: id, organization_id, a, me, now, today',
  ],
  [things('  a: { type: list, of: boolean }'), 'things.yaml:4:24  of must be one of string, integer, number'],
  [things('  a: { type: string, max_items: 3 }'), 'things.yaml:4:22  a string field cannot have "max_items"'],
  [
    things('  a: { type: list, max_items: 0 }'),
    'things.yaml:4:31  max_items must be an integer from 1 to 1000',
  ],
  [
    things('  a: { type: list, nullable: true }'),
    'things.yaml:4:20  a list field cannot have "nullable", because an empty list is a valid value',
  ],
  [things('  a: { type: list, unique: true }'), 'things.yaml:4:20  a list field cannot be unique'],
  [things('  a: { type: list, to: things }'), 'things.yaml:4:20  a list field cannot have "to"'],
  [things('  a: { type: list, max_length: 3 }'), 'things.yaml:4:20  a list field cannot have "max_length"'],
  [
    things('  a: { type: list, of: integer, enum: [x] }'),
    'things.yaml:4:33  a list of integer values cannot have "enum". Use "of: string".',
  ],
  [
    things('  a: { type: money, nullable: true }'),
    'things.yaml:4:3  a money field needs "currency": an ISO 4217 code, for example EUR, or "any" if each record has its own',
  ],
  [
    things('  a: { type: money, currency: eur, nullable: true }'),
    'things.yaml:4:21  "currency" must be an ISO 4217 code, for example EUR, or "any". Write EUR.',
  ],
  [
    things('  a: { type: money, currency: EUR }'),
    'things.yaml:4:3  a money field needs "nullable: true", "required: true" or a default',
  ],
  [
    things('  a: { type: money, currency: EUR, required: true, default: 1 }'),
    'things.yaml:4:36  "required" and "default" are mutually exclusive: remove one',
    'things.yaml:4:52  the default must be an object such as {"amount":12.5,"currency":"EUR"}',
  ],
  [
    things('  a: { type: money, currency: EUR, default: { amount: 0, currency: USD } }'),
    'things.yaml:4:36  the default must be an object such as {"amount":12.5,"currency":"EUR"}',
  ],
  [
    things('  a: { type: money, currency: EUR, min: 1, default: { amount: 0.5, currency: EUR } }'),
    'things.yaml:4:44  the default must be at least 1',
  ],
  [
    things('  a: { type: money, currency: any, default: { amount: 9007199254740993, currency: EUR } }'),
    'things.yaml:4:36  integers in the default must be between -(2^53 - 1) and 2^53 - 1',
  ],
  [
    things('  a: { type: json, default: text }'),
    'things.yaml:4:20  the default must be a JSON object or array of at most 64 KiB',
  ],
  [
    things(
      '  a: { type: json, default: { rooms: x }, schema: { type: object, properties: { rooms: { type: integer } } } }',
    ),
    'things.yaml:4:20  the default.rooms must be an integer',
  ],
  [things('  a: { type: string, default: [x] }'), 'things.yaml:4:22  the default must be a string'],
  [
    things('  a: { type: money, currency: EUR, required: true }', 'filters: [a.currency]'),
    'things.yaml:5:11  all amounts of "a" are in EUR',
  ],
  [
    things('  a: { type: money, currency: any, required: true }', 'filters: [a.curency]'),
    'things.yaml:5:11  unknown field "a.curency". Did you mean "a.currency"?',
  ],
  [
    things(
      '  a: { type: money, currency: any, required: true }',
      'filters: [{ field: a.currency, operators: [eq, gte] }]',
    ),
    'things.yaml:5:48  string fields cannot be used as filters with "gte"',
  ],
  [things('  a: { type: number, currency: EUR }'), 'things.yaml:4:22  a number field cannot have "currency"'],
  [
    things('  a: { type: money, currency: EUR, required: true }\nscopes: { s: a > 1 }'),
    'things.yaml:5:14  "a" is a money field. Write a.amount.',
  ],
  [
    things('  a: { type: json, nullable: true, schema: { type: strin } }'),
    'things.yaml:4:36  "schema" is not a valid JSON Schema: /type must be equal to one of the allowed values, /type must be array, /type must match a schema in anyOf',
  ],
  [
    things('  a: { type: json, nullable: true, schema: { propertes: {} } }'),
    'things.yaml:4:36  "schema" is not a valid JSON Schema: unknown keyword: "propertes"',
  ],
  [
    things('  a: { type: json }'),
    'things.yaml:4:3  a json field needs "nullable: true", "required: true" or a default',
  ],
  [things('  a: { type: text, schema: {} }'), 'things.yaml:4:20  a text field cannot have "schema"'],
  [
    things('  a: { type: date, default_from: today }'),
    'things.yaml:4:20  "default_from" needs "nullable: true", because the value of the expression can be null',
  ],
  [
    things('  a: { type: reference, to: things, nullable: true, default_from: id }'),
    'things.yaml:4:53  a reference field cannot have "default_from"',
  ],
  [
    things('  a: { type: string, nullable: true, read_only: true, default_from: b }', b),
    'things.yaml:4:55  a read-only field cannot have "default_from"',
  ],
  [
    things(
      '  a: { type: string, nullable: true, enum: [x], closed: true, transitions: { x: [] }, initial: [x], default_from: b }',
      b,
    ),
    'things.yaml:4:101  "default_from" and "transitions" are mutually exclusive: remove one',
  ],
  [
    things('  a: { type: string, nullable: true, default_from: a }'),
    'things.yaml:4:52  the default of "a" cannot read "a" itself',
  ],
  [
    things('  a: { type: int64, nullable: true, default_from: b + id }', '  b: { type: int64 }'),
    'things.yaml:4:55  "id" is read-only, so a default cannot read it. Use "now" for the time of creation and "me" for the caller.',
  ],
  [
    things(
      '  a: { type: string, nullable: true, default_from: c }',
      '  c: { type: string, nullable: true, default_from: b }',
      b,
    ),
    'things.yaml:4:52  "c" has "default_from" itself, so its value is not known yet. Repeat its expression.',
  ],
  [
    things('  c: { type: string, group: g }', '  a: { type: string, nullable: true, default_from: c }'),
    'things.yaml:5:52  "c" belongs to the group "g", and "a" would reveal its values. Add "group: g" to "a".',
  ],
  [
    things(
      '  c: { type: string, sensitive: true }',
      '  a: { type: string, nullable: true, default_from: c }',
    ),
    'things.yaml:5:52  "c" is sensitive, and "a" would reveal its values in the change log. Add "sensitive: true" to "a".',
  ],
  [
    things('  a: { type: int64 }\nchecks: [{ that: a > b, fields: [a], message: No. }]'),
    'things.yaml:5:22  unknown field "b". Available: id, organization_id, a',
  ],
  [
    things('  a: { type: int64 }\nchecks: [{ that: a + 1, fields: [a], message: No. }]'),
    'things.yaml:5:18  the expression must be true or false, but is an integer. For example: assignee_id == me.',
  ],
  [
    things(
      '  a: { type: int64 }\n  b: { type: int64 }\nchecks: [{ that: a > 1, fields: [b], message: No. }]',
    ),
    'things.yaml:6:34  "b" is not a field of the condition. Available: a',
  ],
  [
    things('  a: { type: int64 }\nchecks: [{ that: a > id, fields: [id], message: No. }]'),
    'things.yaml:5:35  "id" is read-only, so callers could not correct it. Name a field that they can write.',
  ],
  [
    things('  a: { type: user, nullable: true }\nchecks: [{ that: a == me, fields: [a], message: No. }]'),
    'things.yaml:5:23  the value cannot depend on the caller ("me")',
  ],
  [
    things(
      '  a: { type: user, nullable: true }',
      'checks: [{ that: a in my_team, fields: [a], message: No. }]',
    ),
    'things.yaml:5:23  the value cannot depend on the caller ("my_team")',
  ],
  [
    things('  a: { type: user, nullable: true }', '  b: { type: boolean, computed: a in my_team }'),
    'things.yaml:5:38  the value cannot depend on the caller ("my_team")',
  ],
  [
    things(
      '  a: { type: int64, group: x }\n  b: { type: int64 }\nchecks: [{ that: a > b, fields: [b], message: No. }]',
    ),
    'things.yaml:6:18  "a" belongs to the group "x", and "b" does not, so the check would reveal the values of "a"',
  ],
  [
    things(
      '  c: { type: number, group: g }\n  d: { type: number, group: h }',
      'checks: [{ that: c > d, fields: [c], message: No. }]',
    ),
    'things.yaml:6:18  "c" belongs to the group "g", and "d" does not, so the check would reveal the values of "c"',
  ],
  [
    things(
      '  p: { type: money, currency: EUR, nullable: true, group: g }',
      b,
      `checks: [{ that: b == '' || p.amount > 2, fields: [b], message: No. }]`,
    ),
    'things.yaml:6:18  "p" belongs to the group "g", and "b" does not, so the check would reveal the values of "p"',
  ],
  [
    things('  a: { type: date, nullable: true }\nchecks: [{ that: a > today, fields: [a], message: No. }]'),
    'things.yaml:5:22  the value cannot depend on the current date ("today")',
  ],
  [
    things('  a: { type: int64 }\nchecks: [{ that: 1 == 1, fields: [a], message: No. }]'),
    'things.yaml:5:18  the condition must read a field',
  ],
  [
    things('  a: { type: int64 }\nchecks: [{ that: a > 1, fields: [a] }]'),
    'things.yaml:5:10  item 1 of checks needs "message"',
  ],
  [
    things('  a: { type: int64 }\nchecks: { that: a > 1 }'),
    'things.yaml:5:9  checks must be a list of at most 20 checks, not a map',
  ],
  [
    things(
      '  a: { type: string, enum: [open, paid], closed: true, default: open }',
      `checks: [{ that: 'a != "payed" || id > 0', fields: [a], message: No. }]\nscopes: { x: 'a in ["open", "closed"]', y: 'id > 0 && "payed" == a' }`,
    ),
    'things.yaml:5:24  "payed" is not a value of "a". Did you mean "paid"?',
    'things.yaml:6:29  "closed" is not a value of "a". Available: open, paid',
    'things.yaml:6:55  "payed" is not a value of "a". Did you mean "paid"?',
  ],
  [
    things('  a: { type: int64 }\nlocked: a > b'),
    'things.yaml:5:13  unknown field "b". Available: id, organization_id, a, now, today',
  ],
  [
    things('  a: { type: int64 }\nlocked: { when: a + 1, message: No. }'),
    'things.yaml:5:17  the expression must be true or false, but is an integer. For example: assignee_id == me.',
  ],
  [
    things('  a: { type: user, nullable: true }\nlocked: a == me'),
    'things.yaml:5:14  the value cannot depend on the caller ("me")',
  ],
  [things('  a: { type: int64 }\nlocked: 1 == 1'), 'things.yaml:5:9  the condition must read a field'],
  [things('  a: { type: int64 }\nlocked: { message: No. }'), 'things.yaml:5:1  locked needs "when"'],
  [
    things(
      '  a: { type: reference, to: things, nullable: true }',
      '  n: { type: integer, rollup: { count: true, of: things, by: a, stored: true } }',
      'locked: n > 0',
    ),
    'things.yaml:6:9  "n" is a rollup field, which an expression cannot read',
  ],
  [
    things('  a: { type: string, enum: [open, paid], closed: true, default: open }', 'locked: a == "payed"'),
    'things.yaml:5:14  "payed" is not a value of "a". Did you mean "paid"?',
  ],
  [things('  a: { type: int64 }\nfrozen: a > 1'), 'things.yaml:5:1  unknown key "frozen". Use "locked".'],
  [things('  a: { type: string, closed: true }'), 'things.yaml:4:22  "closed" needs "enum"'],
  [
    things('  a: { type: string, suggested: [x], closed: true }'),
    'things.yaml:4:38  "closed" needs "enum". Use "enum" instead of "suggested".',
  ],
  [
    things('  a: { type: string, enum: [x], default: x, transitions: { x: [] } }'),
    'things.yaml:4:45  "transitions" needs "closed: true"',
  ],
  [
    things('  a: { type: string, enum: [x], closed: true, default: x, transitions: { x: y } }'),
    'things.yaml:4:77  x must be a list of values, for example [ listed ], or a map of values to scopes, not "y"',
  ],
  [
    things(
      '  a: { type: string, enum: [draft, sold], closed: true, default: draft, transitions: { drft: [sold, sol] } }',
    ),
    'things.yaml:4:73  "drft" is not in "enum". Did you mean "draft"?',
    'things.yaml:4:73  "sol" is not in "enum". Did you mean "sold"?',
  ],
  [
    things(
      '  a: { type: string, enum: [x, y], closed: true, default: x, transitions: { x: { y: owm } } }',
      'scopes: { own: id == me }',
    ),
    'things.yaml:4:62  unknown scope "owm". Did you mean "own"?',
  ],
  [
    things(
      '  a: { type: string, enum: [x, y], closed: true, default: x, transitions: { x: { y: own }, y: { x: all, y: owm } } }',
      'scopes: { own: id == me }',
    ),
    'things.yaml:4:62  unknown scope "owm". Did you mean "own"?',
  ],
  [
    things('  a: { type: string, enum: [x, y], closed: true, default: x, transitions: { x: { z: all } } }'),
    'things.yaml:4:62  "z" is not in "enum"',
  ],
  [
    things('  a: { type: string, enum: [x, y], closed: true, default: x, transitions: { x: { y: true } } }'),
    'things.yaml:4:85  y must be a scope, or all, not true. Write "true".',
  ],
  [
    things('  a: { type: string, enum: [x, y], closed: true, required: true, transitions: { x: [y] } }'),
    'things.yaml:4:66  a new record could not have a value. Add a default or "initial".',
  ],
  [
    things(
      '  a: { type: string, enum: [x, y], closed: true, default: x, initial: [z], transitions: { x: [y] } }',
    ),
    'things.yaml:4:62  "z" is not in "enum"',
  ],
  [
    things('  a: { type: string, enum: [x, y], closed: true, default: x, initial: [y] }'),
    'things.yaml:4:62  "initial" needs "transitions"',
  ],
  [
    things(
      '  a: { type: string, enum: [x, y], closed: true, default: x, read_only: true, transitions: { x: [y] } }',
    ),
    'things.yaml:4:79  a read-only field cannot have "transitions"',
  ],
  [
    things('  a: { type: int64, transitions: { x: [y] } }'),
    'things.yaml:4:21  an int64 field cannot have "transitions"',
    'things.yaml:4:21  "transitions" needs "closed: true"',
    'things.yaml:4:21  a new record could not have a value. Add a default or "initial".',
  ],
  ...['T-0000', 'T-{00}-{00}', 'T-{month}-{0}', '{0', 'T-{}', 'T-{0000000000000}'].map(
    (format) =>
      [
        things(`  a: { type: string, sequence: "${format}" }`),
        'things.yaml:4:32  sequence must be a format with one placeholder of zeros, for example T-{year}-{0000}',
      ] as const,
  ),
  [
    things('  a: { type: string, sequence: { format: "T-{0}", gap_free: true } }'),
    'things.yaml:4:32  sequence must be a format with one placeholder of zeros, for example T-{year}-{0000}, not a map. Write only the format: sequences have no gaps.',
  ],
  [
    things('  a: { type: text, sequence: "{0}" }'),
    'things.yaml:4:20  a text field cannot have "sequence". Use "type: string".',
  ],
  ...[
    'read_only: true',
    'required: true',
    'nullable: true',
    'default: x',
    'default_from: b',
    'enum: [x]',
    'suggested: [x]',
    'unique: true',
    'sensitive: true',
    'max_length: 5',
    'pattern: x',
  ].map(
    (key) =>
      [
        things(`  a: { type: string, ${key}, sequence: "{0}" }`, b),
        `things.yaml:4:22  a field with "sequence" cannot have "${key.split(':')[0]}"`,
      ] as const,
  ),
  [
    things('  a: { type: string, sequence: "{0}" }', b, 'unique: [[a, b]]'),
    'things.yaml:6:11  "a" has a sequence and is unique already',
  ],
  [
    things('  a: { type: string, autonumber: true }'),
    'things.yaml:4:22  unknown key "autonumber". Use "sequence" with a format, for example T-{year}-{0000}.',
  ],
  [
    things('  a: { type: integer, enum: [a] }'),
    'things.yaml:4:23  an integer field cannot have "enum". Use "type: string" for a list of values.',
  ],
  [
    things('  a: { type: reference, nullable: true, to: users }'),
    'things.yaml:4:45  unknown resource "users". Users are not a resource. Use "type: user" without "to" for a member of the organization.',
  ],
  [
    things('  a: { type: reference, nullable: true, to: [things, b, users] }'),
    'things.yaml:4:54  unknown resource "b". Available: things',
    'things.yaml:4:57  unknown resource "users". Users are not a resource. Use "type: user" without "to" for a member of the organization.',
  ],
  [
    things('  a: { type: reference, nullable: true, to: [things] }'),
    'things.yaml:4:45  to must be a resource, or a list of at least two different resources, for example [ leads, contacts ]',
  ],
  [
    things('  a: { type: reference, nullable: true, to: [things, things] }'),
    'things.yaml:4:54  "things" is listed twice in to',
  ],
  [
    things('  a: { type: string, to: [things, things2] }'),
    'things.yaml:4:22  a string field cannot have "to"',
  ],
  [
    { ...things('  a: { type: reference, to: [things, quotes] }'), ...quotes },
    'things.yaml:4:3  a reference needs "nullable: true" or "required: true"',
  ],
  [
    { ...things('  a: { type: reference, to: [things, quotes], required: true }'), ...quotes },
    'things.yaml:4:47  a required reference cannot become null when its record is deleted. Use "on_delete: restrict" or "on_delete: cascade".',
  ],
  [
    {
      ...things(
        '  a: { type: reference, to: [things, quotes], nullable: true }',
        '  a_quotes_id: { type: integer }',
      ),
      ...quotes,
    },
    'things.yaml:5:3  "a_quotes_id" needs the same column as "a". Rename one of the fields.',
  ],
  [
    {
      ...things(
        '  a: { type: reference, to: [things, quotes], nullable: true, unique: true }',
        '  b: { type: joined, through: a, show: [c] }',
        '  c: { type: string }',
        'filters: [{ field: a, operators: [gte] }]',
        'sort: { by: a }',
        'scopes: { s: a != null }',
      ),
      ...quotes,
    },
    'things.yaml:4:63  a multi-target reference field cannot be unique',
    'things.yaml:5:31  "a" can refer to several resources (things, quotes), so a joined field cannot follow it. Use "expand" in requests.',
    'things.yaml:7:35  multi-target reference fields cannot be used as filters with "gte"',
    'things.yaml:8:13  cannot sort by multi-target reference fields',
    'things.yaml:9:14  "a" is a multi-target reference field, which an expression cannot read',
  ],
  [
    {
      ...things('  a: { type: reference, to: [things, quotes], required: true, on_delete: cascade }'),
      'quotes.yaml': `${head.join('\n')}\n  b: { type: reference, to: things, required: true, on_delete: cascade }\n`,
    },
    'things.yaml:4:57  required references must not form a cycle, but they go from quotes back to things. Make one of them nullable.',
    'quotes.yaml:4:47  no record could be created, because required references go from things back to quotes. Make one of them nullable.',
  ],
  [
    {
      ...things('  a: { type: reference, to: [things, quotes], required: true, on_delete: cascade }'),
      'quotes.yaml': `${head.join('\n')}\n  b: { type: reference, to: orders, required: true, on_delete: cascade }\n`,
      'orders.yaml': `${head.join('\n')}\n  c: { type: reference, to: things, required: true, on_delete: cascade }\n`,
    },
    'things.yaml:4:57  required references must not form a cycle, but they go from quotes back to things. Make one of them nullable.',
    'quotes.yaml:4:47  no record could be created, because required references go from orders back to quotes. Make one of them nullable.',
    'orders.yaml:4:47  no record could be created, because required references go from things back to orders. Make one of them nullable.',
  ],
  [
    {
      ...things('  a: { type: reference, to: [things, quotes], nullable: true }'),
      'quotes.yaml': `${head.join('\n')}\n  resource: { type: string }\n`,
    },
    'things.yaml:4:38  quotes cannot be one of several resources, because it has a field named "resource". Rename the field.',
  ],
  [
    {
      ...things(
        '  a_reference_with_a_name_of_forty_letters: { type: reference, to: [things, quotes], nullable: true }',
      ),
      'quotes.yaml': `singular: quote_with_a_long_name\n${head.join('\n')}\n`,
    },
    'things.yaml:4:64  the column "a_reference_with_a_name_of_forty_letters_quote_with_a_long_name_id" for quotes would be longer than 63 characters. Choose a shorter name for the field.',
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
    'things.yaml:4:25  the default must be an RFC 3339 timestamp, such as 2026-03-01T09:30:00+01:00. A default is a fixed value. Use "default_from: now".',
  ],
  [
    things('  a: { type: date, default: today }'),
    'things.yaml:4:20  the default must be a date, such as 2026-03-01. A default is a fixed value. Use "default_from: today".',
  ],
  [
    things('  a: { type: integer, default: "5" }'),
    'things.yaml:4:23  the default must be an integer from -2147483648 to 2147483647. Write 5 without quotes.',
  ],
  [
    { 'price-lists.yaml': head.join('\n') },
    `price-lists.yaml:1:1  the file name ${name}. Did you mean "price_lists"?`,
  ],
  [{ 'Cafés.yaml': head.join('\n') }, `Cafés.yaml:1:1  the file name ${name}. Did you mean "cafes"?`],
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
  // Scopes. Issues in a condition are reported at their exact location, whatever its notation in YAML.
  [things('scopes: owner_id == me'), `things.yaml:4:9  scopes must be ${scopes}, not "owner_id == me"`],
  [things('scopes: [own]'), `things.yaml:4:9  scopes must be ${scopes}, not a list`],
  [
    things('scopes:', '  own: true'),
    'things.yaml:5:8  own must be a condition, for example owner_id == me, not true. Write "true".',
  ],
  [
    things('scopes:', '  own:'),
    'things.yaml:5:7  own must be a condition, for example owner_id == me, but is empty',
  ],
  [things('scopes:', '  "*": id == 1'), `things.yaml:5:3  "*" ${name}`],
  [things('scopes:', '  myOwn: id == 1'), `things.yaml:5:3  "myOwn" ${name}. Did you mean "my_own"?`],
  ...['all', 'any', 'none', 'list', 'create', 'read', 'update', 'delete'].map(
    (word) =>
      [
        things('scopes:', `  ${word}: id == 1`),
        `things.yaml:5:3  "${word}" would be ambiguous in a grant. Choose another scope name.`,
      ] as const,
  ),
  [
    things('scopes:', ...Array.from({ length: 21 }, (_, index) => `  s${index}: id == 1`)),
    `things.yaml:5:3  scopes must be ${scopes}`,
  ],
  [things('scope: {}'), 'things.yaml:4:1  unknown key "scope". Did you mean "scopes"?'],
  [
    things('scopes:', '  own: !(id == 1)'),
    'things.yaml:5:8  tags (!(id) are not allowed. Text that starts with "!" needs quotes.',
  ],
  ...[
    ['  x: id == 1 && idd == 1', '5:17'],
    ['  x: "id == 1 && idd == 1"', '5:18'],
    ["  x: 'id == 1 && idd == 1'", '5:18'],
    [`  x: '"it''s" == "x" && idd == 1'`, '5:25'],
    [String.raw`  x: "\"\\n\" == \"\x41\u00e9\" && idd == 1"`, '5:36'],
    ['  x:   id == 1\n    && idd == 1', '6:8'],
    ['  x: "id == 1\n    && idd == 1"', '6:8'],
    ['  x: "id == 1 \\\n    && idd == 1"', '6:8'],
    ['  x: >\n    id == 1 &&\n      id == 2 &&\n    idd == 1', '8:5'],
    ['  x: |-\n\n    id == 1 &&\n    idd == 1', '8:5'],
  ].map(
    ([text = '', location]) =>
      [things('scopes:', text), `things.yaml:${location}  unknown field "idd". Did you mean "id"?`] as const,
  ),
  [
    things(
      '  a: { type: user, nullable: true }',
      'scopes:',
      '  x: id in my_team',
      '  y: a == my_team',
      '  z: a in my_teams',
    ),
    'things.yaml:6:6  id (an integer) cannot be in "my_team", which contains users',
    'things.yaml:7:11  "my_team" can only follow "in", for example assignee_id in my_team',
    'things.yaml:8:11  "in" must be followed by a list, for example ["New", "Won"], or by my_team',
  ],
  [
    things('  a: { type: string }', 'scopes:', '  x: a == 1', '  y: b == "x"', '  z: a'),
    'things.yaml:6:6  a (text) cannot be compared with 1 (an integer). Write "1" in quotes.',
    'things.yaml:7:6  unknown field "b". Available: id, organization_id, a, me, now, today',
    'things.yaml:8:6  the expression must be true or false, but is text. For example: assignee_id == me.',
  ],
  [
    things(
      '  a: { type: string, sensitive: true }',
      '  c: { type: number, group: finance }',
      link,
      '  j: { type: joined, through: p, show: [a] }',
      'scopes:',
      '  x: a == "1" || c > 1 || j == "x"',
    ),
    'things.yaml:9:6  "a" is sensitive and therefore missing in the change log, so a scope cannot read it',
    'things.yaml:9:18  "c" belongs to the group "finance", so a scope cannot read it',
    'things.yaml:9:27  "j" is a joined field, which an expression cannot read',
  ],
  [
    things('  a: { type: string, retired: true }', 'scopes: { x: a == "1" }'),
    'things.yaml:5:14  unknown field "a". Available: id, organization_id, me, now, today',
  ],
  [
    things('  a: { type: string, renamed_from: c }', 'scopes: { x: c == "1" }'),
    'things.yaml:5:14  "c" is now called "a". Use the current name.',
  ],
  // Children.
  ...(
    [
      ['children: [lines]', `1:11  children must be ${children}, not a list`],
      ['children: { Lines: { of: lines, by: quote_id } }', `1:13  "Lines" ${name}. Did you mean "lines"?`],
      [
        'children: { rows: lines }',
        '1:19  rows must be a map such as { of: quote_lines, by: quote_id }, not "lines"',
      ],
      ['children: { rows: { of: lines } }', '1:13  rows needs "by"'],
      ['children: { rows: { of: lines, by: quote_id, order: id } }', '1:46  unknown key "order"'],
      [
        'children: { id: { of: lines, by: quote_id } }',
        '1:13  "id" is a field of this resource. Choose another name for the list.',
      ],
      [
        'children: { expanded: { of: lines, by: quote_id } }',
        '1:13  "expanded" is a reserved name. Choose another name.',
      ],
      [
        'children: { rows: { of: line, by: quote_id } }',
        '1:25  unknown resource "line". Did you mean "lines"?',
      ],
      [
        'children: { rows: { of: lines, by: quote } }',
        '1:36  "quote" is not a reference from lines to quotes. Did you mean "quote_id"?',
      ],
      [
        'children: { rows: { of: lines, by: quote_ids } }',
        '1:36  "quote_ids" is not a reference from lines to quotes. Did you mean "quote_id"?',
      ],
      [
        'children: { rows: { of: lines, by: note_id } }',
        '1:36  "note_id" is not a reference from lines to quotes. Did you mean "quote_id"?',
      ],
      [
        'children: { rows: { of: visits, by: subject } }',
        '1:37  "subject" of visits refers to one of several resources, so it cannot be used for a list of children',
      ],
      [
        'children: { rows: { of: lines, by: quote_id, sort: potion } }',
        '1:52  unknown field "potion" of lines. Did you mean "position"?',
      ],
      [
        'children: { rows: { of: lines, by: quote_id, sort: { by: quote_name } } }',
        '1:52  cannot sort by a joined field',
      ],
      [
        'children: { rows: { of: lines, by: quote_id, sort: { by: margin, direction: desc } } }',
        '1:52  "margin" of lines belongs to the group "finance", so the list cannot be ordered by it',
      ],
      [
        'children: { rows: { of: lines, by: locked_id, writable: true } }',
        '1:57  "locked_id" of lines is read-only, so the list cannot be writable',
      ],
      [
        'children: { a: { of: lines, by: quote_id }, b: { of: lines, by: quote_id } }',
        '1:65  "a" already contains the lines with this reference',
      ],
      [
        'children: { lines: { of: notes, by: quote_id } }',
        '1:13  "lines" is also the name of a resource that refers to quotes. Choose another name.',
      ],
      [
        'children: { visits: { of: lines, by: quote_id } }',
        '1:13  "visits" is also the name of a resource that refers to quotes. Choose another name.',
      ],
    ] as const
  ).map(
    ([text, line]) =>
      [
        {
          'lines.yaml': `common: all
fields:
  quote_id: { type: reference, to: quotes, nullable: true }
  locked_id: { type: reference, to: quotes, nullable: true, read_only: true }
  quote_ids: { type: references, to: quotes }
  note_id: { type: reference, to: notes, nullable: true }
  quote_name: { type: joined, through: quote_id, show: [name] }
  position: { type: integer }
  margin: { type: integer, group: finance }
`,
          'notes.yaml': 'common: all\nfields:\n  quote_id: { type: reference, to: quotes, nullable: true }\n',
          'visits.yaml':
            'common: all\nfields:\n  subject: { type: reference, to: [notes, quotes], nullable: true }\n',
          'quotes.yaml': `${text}\ncommon: all\nfields:\n  name: { type: string }\n`,
          'common.yaml': head.join('\n'),
        },
        `quotes.yaml:${line}`,
      ] as const,
  ),
  // Field groups.
  [
    things('  a: { type: string, group: Finance }'),
    `things.yaml:4:29  group ${name}. Did you mean "finance"?`,
  ],
  [
    { 'things.yaml': `${head.join('\n').replaceAll(' }', ', group: g }')}\n` },
    'things.yaml:2:48  every caller needs "id", so it cannot have a group',
    'things.yaml:3:71  every caller needs "organization_id", so it cannot have a group',
  ],
  [
    things('  a: { type: string, required: true, group: g }'),
    'things.yaml:4:38  "a" is required, so callers without the group could not create records. Remove "required" or "group".',
  ],
  [
    things('  a: { type: string, group: g }', 'sort: { by: a }'),
    'things.yaml:4:22  lists are ordered by "a", so it cannot have a group',
  ],
  [
    things('  a: { type: string, group: g }', 'search: [a]'),
    'things.yaml:4:22  "a" is searched by every caller, so it cannot have a group. Remove it from "search".',
  ],
  [
    things('  a: { type: string, group: g }', b, 'search: [b, a]'),
    'things.yaml:4:22  "a" is searched by every caller, so it cannot have a group. Remove it from "search".',
  ],
  [
    things('  a: { type: string, group: g }', b, 'unique: [a, b]'),
    'things.yaml:4:22  "a" is unique together with "b", which is not in the group "g"',
  ],
  [
    things('  a: { type: string, group: g }', '  c: { type: string, group: h }', 'unique: [c, a]'),
    'things.yaml:4:22  "a" is unique together with "c", which is not in the group "g"',
    'things.yaml:5:22  "c" is unique together with "a", which is not in the group "h"',
  ],
  [
    things('  a: { type: string, group: g }', link, '  j: { type: joined, through: p, show: [a] }'),
    'things.yaml:6:3  "j" shows "a" of things, which belongs to the group "g". Add "group: g".',
  ],
  [
    things('  a: { type: string, group: g }', b, link, '  j: { type: joined, through: p, show: [b, a] }'),
    'things.yaml:7:3  "j" shows "a" of things, which belongs to the group "g". Add "group: g".',
  ],
  [
    things(
      '  p: { type: reference, to: things, nullable: true, group: g }',
      b,
      '  j: { type: joined, through: p, show: [b], group: h }',
    ),
    'things.yaml:6:45  "j" shows the record of "p", which belongs to the group "g". Add "group: g".',
  ],
  [
    things(
      '  p: { type: reference, to: things, nullable: true, group: g }',
      '  a: { type: string, group: h }',
      '  j: { type: joined, through: p, show: [a], group: g }',
    ),
    'things.yaml:6:45  "j" shows "a" of things, which belongs to the group "h". Fields of different groups cannot be shown together.',
  ],
  // Aggregates.
  [
    things('aggregates: {}'),
    'things.yaml:4:13  aggregates must be a map such as { group_by: [ stage, created_at ], measures: [ amount ] }',
  ],
  [
    things(b, 'aggregates: { groups: [b] }'),
    'things.yaml:5:15  unknown key "groups". Did you mean "group_by"?',
  ],
  [
    things(b, 'aggregates: { group_by: b }'),
    'things.yaml:5:25  group_by must be a list of fields, such as [ stage, created_at ], not "b". Write [ b ].',
  ],
  [
    things('  bee: { type: string }', 'aggregates: { group_by: [be] }'),
    'things.yaml:5:26  unknown field "be". Did you mean "bee"?',
  ],
  [
    things('  a: { type: text }', 'aggregates: { group_by: [a] }'),
    'things.yaml:5:26  cannot group by text fields',
  ],
  [
    things(link, b, '  j: { type: joined, through: p, show: [b] }', 'aggregates: { group_by: [p, j] }'),
    'things.yaml:7:29  cannot group by joined fields',
  ],
  [
    things(
      '  a: { type: money, currency: any, nullable: true }',
      'aggregates: { group_by: [a.currency, a] }',
    ),
    'things.yaml:5:38  cannot group by money fields. Use "a.currency".',
  ],
  [
    things('  a: { type: money, currency: EUR, nullable: true }', 'aggregates: { group_by: [a.currency] }'),
    'things.yaml:5:26  all amounts of "a" are in EUR',
  ],
  [
    things(b, 'aggregates: { measures: [b] }'),
    'things.yaml:5:26  "b" is a string field. Measures are numbers, amounts, dates and timestamps.',
  ],
  [
    things(b, '  a: { type: number }', 'aggregates: { measures: [x] }'),
    'things.yaml:6:26  unknown field "x". Available: id, organization_id, a',
  ],
  [
    things('  tz: { type: string }', 'filters: [tz]', 'aggregates: { group_by: [tz] }'),
    'things.yaml:6:13  "tz" is a filter, but also a parameter of aggregates. Remove the filter, or rename the field.',
  ],
  // The trash.
  ...['0 days', '30 hours', '3651 days', '30d'].map(
    (value) => [things(`trash: ${value}`), `things.yaml:4:8  trash must be ${period}`] as const,
  ),
  [things('trash: 30'), `things.yaml:4:8  trash must be ${period}, not 30`],
  [things('trash: true'), `things.yaml:4:8  trash must be ${period}, not true`],
  [things('trash:'), `things.yaml:4:7  trash must be ${period}, but is empty`],
  [things('trashed: 30 days'), 'things.yaml:4:1  unknown key "trashed". Did you mean "trash"?'],
  [
    things('soft_delete: true'),
    'things.yaml:4:1  unknown key "soft_delete". Use "trash" with a period, for example "trash: 30 days".',
  ],
  ...['trashed', 'trashed_at'].map(
    (field) =>
      [
        things(`  ${field}: { type: string }`, 'trash: 30 days'),
        `things.yaml:4:3  a resource with "trash" cannot have a field named "${field}". Rename the field.`,
      ] as const,
  ),
  [
    {
      'common.yaml': [...head, '  trashed_at: { type: timestamp, nullable: true }', ''].join('\n'),
      'things.yaml': 'common: all\nfields: {}\ntrash: 30 days\n',
    },
    'common.yaml:4:3  a resource with "trash" cannot have a field named "trashed_at". Rename the field.',
  ],
  // Computed fields.
  ...(
    [
      ['string, computed: id', '22', 'a string field cannot have "computed"', computableTypes],
      ['date, computed: id', '20', 'a date field cannot have "computed"', computableTypes],
      ['"json", computed: id', '22', 'a json field cannot have "computed"', computableTypes],
      ['money, currency: any, computed: id', '36', 'a money field cannot have "computed"', computableTypes],
      ['number, computed: id, nullable: true', '36', 'a field with "computed" cannot have "nullable"', ''],
      ['number, computed: id, required: true', '36', 'a field with "computed" cannot have "required"', ''],
      ['number, computed: id, unique: true', '36', 'a field with "computed" cannot have "unique"', ''],
      ['number, computed: id, default: 0', '36', 'a field with "computed" cannot have "default"', ''],
      [
        'number, computed: id, default_from: id',
        '36',
        'a field with "computed" cannot have "default_from"',
        '',
      ],
      ['number, computed: id, min: 0', '36', 'a field with "computed" cannot have "min"', ''],
      ['number, computed: id, message: No.', '36', 'a field with "computed" cannot have "message"', ''],
      [
        'number, computed: id, assignable: true',
        '36',
        'a field with "computed" cannot have "assignable"',
        '',
      ],
      [
        'int64, computed: id, set: creator, read_only: true',
        '35',
        'a field with "computed" cannot have "set"',
        '',
      ],
      [
        'number, computed: id, retired: true',
        '36',
        'a field with "computed" has no stored values to keep. Remove the field instead.',
        '',
      ],
    ] as const
  ).map(
    ([field, column, message, hint]) =>
      [
        things(`  a: { type: ${field} }`),
        `things.yaml:4:${column}  ${message}${hint === '' ? '' : `. Possible types: ${hint}.`}`,
      ] as const,
  ),
  [
    things('  a: { type: number, computed: 5 }'),
    'things.yaml:4:32  computed must be an expression, for example price / area, not 5. Write "5".',
  ],
  [things('  a: { type: number, computed: 1 + 1 }'), 'things.yaml:4:32  the expression must read a field'],
  [things('  a: { type: number, computed: id + a }'), 'things.yaml:4:37  "a" cannot be computed from itself'],
  [
    things(
      '  a: { type: number, computed: c + 1 }',
      '  c: { type: number, computed: d }',
      '  d: { type: number, computed: a }',
    ),
    'things.yaml:4:22  computed fields must not form a cycle: a → c → d → a',
  ],
  [
    things('  a: { type: integer, computed: id / 2 }'),
    'things.yaml:4:33  the expression must be an integer, but is a number',
  ],
  [
    things('  a: { type: boolean, computed: id + 2 }'),
    'things.yaml:4:33  the expression must be true or false, but is an integer. For example: assignee_id == me.',
  ],
  [
    things('  at: { type: timestamp, nullable: true }', '  a: { type: boolean, computed: at < now }'),
    'things.yaml:5:38  the value cannot depend on the current time ("now")',
  ],
  [
    things(
      '  at: { type: timestamp, nullable: true }',
      `  a: { type: boolean, computed: 'at < at + duration("1h")' }`,
    ),
    'things.yaml:5:39  timestamps cannot be moved by a duration in this expression',
  ],
  [
    things(
      '  at: { type: timestamp, nullable: true }',
      `  a: { type: boolean, computed: 'at < duration("1h") + at' }`,
    ),
    'things.yaml:5:39  timestamps cannot be moved by a duration in this expression',
  ],
  [
    things('  c: { type: number, group: g }', '  a: { type: number, computed: c * 2 }'),
    'things.yaml:5:32  "c" belongs to the group "g", and "a" would reveal its values. Add "group: g" to "a".',
  ],
  [
    things('  c: { type: number, group: g }', '  a: { type: number, computed: c * 2, group: h }'),
    'things.yaml:5:32  "c" belongs to the group "g", and "a" would reveal its values. Fields of different groups cannot be combined.',
  ],
  [
    things('  c: { type: number, sensitive: true }', '  a: { type: number, computed: c * 2 }'),
    'things.yaml:5:32  "c" is sensitive, and "a" would reveal its values in the change log. Add "sensitive: true" to "a".',
  ],
  [
    things(
      '  c: { type: number, group: g }',
      '  d: { type: number, computed: c * 2, group: g }',
      '  a: { type: number, computed: d + 1 }',
    ),
    'things.yaml:6:32  "d" belongs to the group "g", and "a" would reveal its values. Add "group: g" to "a".',
  ],
  [
    things(
      '  p: { type: money, currency: EUR, nullable: true, group: g }',
      '  a: { type: number, computed: p.amount * 2 }',
    ),
    'things.yaml:5:32  "p" belongs to the group "g", and "a" would reveal its values. Add "group: g" to "a".',
  ],
  [
    things('  p: { type: money, currency: EUR, nullable: true, group: g }', 'scopes: { s: p.amount > 2 }'),
    'things.yaml:5:14  "p" belongs to the group "g", so a scope cannot read it',
  ],
  [
    things(
      '  p: { type: money, currency: EUR, nullable: true, sensitive: true }',
      '  a: { type: number, computed: p.amount * 2 }',
    ),
    'things.yaml:5:32  "p" is sensitive, and "a" would reveal its values in the change log. Add "sensitive: true" to "a".',
  ],
  [
    things('  c: { type: number }', '  a: { type: number, computed: c * 2 }', 'search: [a]'),
    'things.yaml:6:10  number fields cannot be searched',
  ],
  [
    things(
      '  c: { type: number }',
      '  a: { type: number, computed: c * 2 }',
      'checks: [{ that: a > 0, fields: [a], message: No. }]',
    ),
    'things.yaml:6:34  "a" is read-only, so callers could not correct it. Name a field that they can write.',
  ],
  [
    things(
      ...'bcdefgh'
        .split('')
        .map(
          (field, index, all) =>
            `  ${field}: { type: int64, computed: ${all[index - 1] ?? 'id'} ${`+ ${all[index - 1] ?? 'id'} `.repeat(3)}}`,
        ),
    ),
    'things.yaml:6:21  the expression is too long, together with the expressions of the computed fields that it reads',
  ],
  ...[
    ['computed', 'Use the type of the values, for example "number", with "computed: price / area".'],
    [
      'rollup',
      'Use the type of the values, for example "number", with "rollup: { sum: amount, of: quote_lines, by: quote_id }".',
    ],
  ].map(
    ([type, advice]) =>
      [things(`  a: { type: ${type} }`), `things.yaml:4:14  unknown type "${type}". ${advice}`] as const,
  ),
  ...['formula', 'expression', 'generated'].map(
    (key) =>
      [
        things(`  a: { type: number, ${key}: id * 2 }`),
        `things.yaml:4:22  unknown key "${key}". Use "computed" with an expression, for example price / area.`,
      ] as const,
  ),
  // Rollups.
  [
    things('  a: { type: integer, computed: id, rollup: { count: true, of: things, by: id } }'),
    'things.yaml:4:37  "computed" and "rollup" are mutually exclusive: remove one',
  ],
  [
    rolledUp('string', 'max: quote_id'),
    `quotes.yaml:4:22  a string field cannot have "rollup". Possible types: ${rollupTypes}.`,
  ],
  [
    rolledUp('money, currency: any', 'sum: price'),
    `quotes.yaml:4:36  a money field cannot have "rollup". Possible types: ${rollupTypes}.`,
  ],
  [rolledUp('number', 'count: true'), 'quotes.yaml:4:14  "count" needs "type: integer" or "type: int64"'],
  [rolledUp('integer', 'count: yes'), 'quotes.yaml:4:40  count must be true'],
  [
    rolledUp('integer', 'unscoped: true'),
    'quotes.yaml:4:23  a rollup needs exactly one of count, sum, min, max, avg',
  ],
  [
    rolledUp('integer', 'count: true, sum: amount'),
    'quotes.yaml:4:23  a rollup needs exactly one of count, sum, min, max, avg',
  ],
  [
    rolledUp('number', 'sum: amont'),
    'quotes.yaml:4:37  unknown field "amont" of lines. Did you mean "amount"?',
  ],
  [
    rolledUp('number', 'sum: name'),
    'quotes.yaml:4:37  "name" of lines is a string field, to which "sum" cannot be applied',
  ],
  [
    rolledUp('date', 'avg: due'),
    'quotes.yaml:4:35  "due" of lines is a date field, to which "avg" cannot be applied',
  ],
  [rolledUp('integer', 'sum: amount'), 'quotes.yaml:4:14  "sum" of a number field needs "type: number"'],
  [rolledUp('integer', 'avg: position'), 'quotes.yaml:4:14  "avg" of an integer field needs "type: number"'],
  [
    rolledUp('date', 'max: position'),
    'quotes.yaml:4:14  "max" of an integer field needs "type: integer" or "type: int64" or "type: number"',
  ],
  [
    rolledUp('money, currency: USD', 'sum: price'),
    'quotes.yaml:4:14  "sum" of a money field needs "type: money, currency: EUR"',
  ],
  [
    rolledUp('number', 'sum: deposit'),
    'quotes.yaml:4:37  "deposit" of lines contains amounts in different currencies, which cannot be combined',
  ],
  [
    rolledUp('integer', 'count: true', 'of: line, by: quote_id'),
    'quotes.yaml:4:50  unknown resource "line". Did you mean "lines"?',
  ],
  [
    rolledUp('integer', 'count: true', 'of: lines, by: name'),
    'quotes.yaml:4:61  "name" is not a reference from lines to quotes. Available: quote_id',
  ],
  [
    rolledUp(
      'integer',
      'count: true',
      'of: lines, by: about',
      '  about: { type: reference, to: [quotes, lines], nullable: true }',
    ),
    'quotes.yaml:4:61  "about" of lines refers to one of several resources, so it cannot be used for a rollup',
  ],
  [
    rolledUp('integer', 'count: true, where: amount > limit'),
    'quotes.yaml:4:62  unknown field "limit". Available: id, organization_id, quote_id, name, amount, position, due, price, deposit, margin, now, today',
  ],
  [
    rolledUp('integer', 'count: true, where: me == 1'),
    'quotes.yaml:4:53  the value cannot depend on the caller ("me")',
  ],
  [
    rolledUp('number', 'sum: margin'),
    'quotes.yaml:4:22  "a" reads "margin" of lines, which belongs to the group "finance". Add "group: finance".',
  ],
  [
    rolledUp('number, group: sales', 'sum: margin'),
    'quotes.yaml:4:36  "a" reads "margin" of lines, which belongs to the group "finance". Fields of different groups cannot be combined.',
  ],
  [
    rolledUp('integer, group: sales', 'count: true, where: margin > 5'),
    'quotes.yaml:4:37  "a" reads "margin" of lines, which belongs to the group "finance". Fields of different groups cannot be combined.',
  ],
  [
    rolledUp(
      'integer, group: sales',
      'count: true',
      'of: lines, by: return_id',
      '  return_id: { type: reference, to: quotes, nullable: true, group: finance }',
    ),
    'quotes.yaml:4:37  "a" reads "return_id" of lines, which belongs to the group "finance". Fields of different groups cannot be combined.',
  ],
  [
    rolledUp('integer', 'count: true', undefined, 'scopes: { cheap: amount < 5 }'),
    'quotes.yaml:4:23  lines has scopes, but "a" includes the records outside of them. Add "group" to limit who sees the field, or "unscoped: true" to the rollup.',
  ],
  [
    rolledUp('integer', 'count: true', undefined, '', 'filters: [a]'),
    'quotes.yaml:5:11  rollup fields cannot be used as filters',
  ],
  [
    rolledUp('integer', 'count: true', undefined, '', 'sort: { by: a }'),
    'quotes.yaml:5:13  cannot sort by rollup fields',
  ],
  [
    rolledUp('integer', 'count: true', undefined, '', '  c: { type: number, computed: a * 2 }'),
    'quotes.yaml:5:32  "a" is a rollup field, which an expression cannot read',
  ],
  [
    rolledUp('integer', 'count: true, stored: yes'),
    'quotes.yaml:4:54  stored must be true or false, not "yes". Write true.',
  ],
  [
    rolledUp('integer', 'count: true, stored: true, where: due < today'),
    'quotes.yaml:4:73  the value cannot depend on the current date ("today")',
  ],
  [
    rolledUp(
      'integer',
      'count: true, stored: true, where: due == null || now > timestamp("2026-03-01T09:30:00Z")',
    ),
    'quotes.yaml:4:82  the value cannot depend on the current time ("now")',
  ],
  [
    rolledUp('integer', 'count: true, stored: true', undefined, '', '  c: { type: number, computed: a * 2 }'),
    'quotes.yaml:5:32  "a" is a rollup field, which an expression cannot read',
  ],
  [
    rolledUp(
      'money, currency: EUR',
      'sum: price, stored: true',
      undefined,
      '',
      'scopes: { b: a.amount > 2 }',
    ),
    'quotes.yaml:5:14  "a" is a rollup field, which an expression cannot read',
  ],
  [
    rolledUp('integer', 'count: true, persisted: true'),
    'quotes.yaml:4:46  unknown key "persisted". Use "stored: true".',
  ],
  [
    rolledUp('number', 'function: sum, field: amount'),
    'quotes.yaml:4:32  unknown key "function". Use the name of the function with the field, for example "sum: amount".',
    'quotes.yaml:4:47  unknown key "field". Use the name of the function with the field, for example "sum: amount".',
  ],
  // Custom fields.
  [
    things('custom_fields: yes'),
    'things.yaml:4:16  custom_fields must be true or false, not "yes". Write true.',
  ],
  [
    things('  custom: { type: string }', 'custom_fields: true'),
    'things.yaml:4:3  a resource with "custom_fields" cannot have a field named "custom". Rename the field.',
  ],
];
