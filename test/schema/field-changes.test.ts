// Changes to the types, rules and names of fields and to what lists accept: each edit, and the edit that reverts it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { apiChanges, apiOf } from '../../engine/schema/api.ts';

const head = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  name: { type: string }
`;

/** Returns the definitions of a resource with these lines, and of others to which it can refer. */
const definitionsOf = (lines: string, name = 'things') =>
  checkSources(
    [
      { name, text: `${head}${lines}\n` },
      ...['others', 'pets'].map((other) => ({ name: other, text: head })),
    ].map(({ name: file, text }) => ({ file: `${file}.yaml`, text })),
  );
type Definitions = ReturnType<typeof definitionsOf>;

/** Describes the changes to the API for its clients. */
const changesBetween = (before: Definitions, after: Definitions) =>
  apiChanges(apiOf(before), apiOf(after), after).map(
    ({ kind, name, text, breaks }) => `${kind} ${name} ${text}${breaks ? ' (breaks clients)' : ''}`,
  );

const code = (keys: string) => `  code: { ${keys} }`;
const integer = (keys = '') => code(`type: integer, nullable: true${keys}`);
const amount = (currency: string) => code(`type: money, currency: ${currency}, nullable: true`);
const json = (keys = '') => code(`type: json, nullable: true${keys}`);
const link = (keys: string) => code(`type: reference, nullable: true, ${keys}`);
const closed = (keys = '') =>
  `${code(`type: string, enum: [a, b], closed: true, default: a${keys}`)}\nscopes: { own: name == "x" }`;
const text = code('type: string');
const filtered = `${text}\nfilters: [{ field: code, operators: [eq] }]`;

/** Edits, each with its changes for clients, and with the changes of the edit that reverts it. */
const edits: readonly (readonly [
  before: string,
  after: string,
  changes: readonly string[],
  reverted: readonly string[],
])[] = [
  // Fields.
  ['', text, ['added things.code is new'], ['removed things.code was removed (breaks clients)']],
  [
    '',
    code('type: string, required: true'),
    ['stricter things.code is new and required in every create (breaks clients)'],
    ['removed things.code was removed (breaks clients)'],
  ],
  [
    text,
    code('type: string, required: true'),
    ['stricter things.code is now required in every create (breaks clients)'],
    ['looser things.code is now optional in creates'],
  ],
  [
    text,
    code('type: string, read_only: true'),
    ['stricter things.code is now read-only and ignored in request bodies (breaks clients)'],
    ['looser things.code can now be set in request bodies'],
  ],
  [
    text,
    code('type: string, nullable: true'),
    ['stricter things.code can now be null in responses (breaks clients)'],
    ['looser things.code is no longer null in responses'],
  ],
  [
    text,
    code('type: integer'),
    ['retyped things.code is integer instead of string (breaks clients)'],
    ['retyped things.code is string instead of integer (breaks clients)'],
  ],
  // A reference, an amount or a list of another type is reported once.
  [
    code('type: string, nullable: true'),
    link('to: others, on_delete: restrict'),
    [
      'retyped things.code is reference instead of string (breaks clients)',
      'added things filter code[in] is new',
    ],
    [
      'retyped things.code is string instead of reference (breaks clients)',
      'removed things filter code[in] was removed (breaks clients)',
    ],
  ],
  [
    code('type: number, nullable: true'),
    amount('EUR'),
    ['retyped things.code is money instead of number (breaks clients)'],
    ['retyped things.code is number instead of money (breaks clients)'],
  ],
  [
    amount('EUR'),
    amount('USD'),
    ['retyped things.code has the currency USD instead of EUR (breaks clients)'],
    ['retyped things.code has the currency EUR instead of USD (breaks clients)'],
  ],
  [
    code('type: list'),
    code('type: list, of: integer'),
    ['retyped things.code is a list of type integer instead of string (breaks clients)'],
    ['retyped things.code is a list of type string instead of integer (breaks clients)'],
  ],
  // Rules.
  [
    text,
    code('type: string, max_length: 5'),
    ['stricter things.code is limited to 5 characters (breaks clients)'],
    ['looser things.code can have any number of characters instead of 5'],
  ],
  [
    code('type: string, max_length: 9'),
    code('type: string, max_length: 5'),
    ['stricter things.code is limited to 5 characters instead of 9 (breaks clients)'],
    ['looser things.code can have up to 9 characters instead of 5'],
  ],
  [
    integer(),
    integer(', min: 1'),
    ['stricter things.code must be at least 1 (breaks clients)'],
    ['looser things.code no longer has to be at least 1'],
  ],
  [
    integer(', min: 1'),
    integer(', min: 2'),
    ['stricter things.code must be at least 2 instead of 1 (breaks clients)'],
    ['looser things.code must be at least 1 instead of 2'],
  ],
  [
    integer(', max: 2'),
    integer(', max: 1'),
    ['stricter things.code must be at most 1 instead of 2 (breaks clients)'],
    ['looser things.code must be at most 2 instead of 1'],
  ],
  [
    code('type: string, min_length: 2'),
    code('type: string, min_length: 3'),
    ['stricter things.code must be at least 3 characters long instead of 2 (breaks clients)'],
    ['looser things.code must be at least 2 characters long instead of 3'],
  ],
  [
    code('type: list'),
    code('type: list, max_items: 2'),
    ['stricter things.code must contain at most 2 values instead of 100 (breaks clients)'],
    ['looser things.code must contain at most 100 values instead of 2'],
  ],
  [
    text,
    code('type: string, pattern: a'),
    ['stricter things.code must match a (breaks clients)'],
    ['looser things.code no longer has a pattern'],
  ],
  [
    code('type: string, pattern: a'),
    code('type: string, pattern: b'),
    ['stricter things.code must match b (breaks clients)'],
    ['stricter things.code must match a (breaks clients)'],
  ],
  [
    text,
    code('type: string, format: email'),
    ['stricter things.code must have the format email (breaks clients)'],
    ['looser things.code no longer has a format'],
  ],
  [
    json(),
    json(', schema: { type: object }'),
    ['stricter things.code has a new schema, which stored values might not meet (breaks clients)'],
    ['looser things.code no longer has a schema'],
  ],
  [
    json(', schema: { type: object }'),
    json(', schema: { type: array }'),
    ['stricter things.code has a new schema, which stored values might not meet (breaks clients)'],
    ['stricter things.code has a new schema, which stored values might not meet (breaks clients)'],
  ],
  [text, code('type: string, enum: [a]'), [], []],
  [
    code('type: string, enum: [a]'),
    code('type: string, enum: [a, b]'),
    ['looser things.code also lists b'],
    ['stricter things.code no longer lists b (breaks clients)'],
  ],
  [
    code('type: string, enum: [a, b]'),
    code('type: string, enum: [a, b], closed: true'),
    ['stricter things.code rejects all values except a, b (breaks clients)'],
    ['looser things.code accepts values that are not listed'],
  ],
  [
    closed(),
    closed(', transitions: { a: [b] }'),
    ['stricter things.code can only change along its transitions (breaks clients)'],
    ['looser things.code can change to any value'],
  ],
  [
    closed(', transitions: { a: [b] }'),
    closed(', transitions: { a: [b], b: [a] }, initial: [b]'),
    ['looser things.code can be b in a new record', 'looser things.code can change from b to a'],
    [
      'stricter things.code can no longer be b in a new record (breaks clients)',
      'stricter things.code can no longer change from b to a (breaks clients)',
    ],
  ],
  [
    closed(', transitions: { a: [b] }'),
    closed(', transitions: { a: { b: own } }'),
    [
      'stricter things.code can no longer change from a to b (breaks clients)',
      'looser things.code can change from a to b (in the scope own)',
    ],
    [
      'stricter things.code can no longer change from a to b (in the scope own) (breaks clients)',
      'looser things.code can change from a to b',
    ],
  ],
  [
    '',
    'checks: [{ that: name != "x", fields: [name], message: No. }]',
    ['stricter things must now meet name != "x" (breaks clients)'],
    ['looser things no longer has to meet name != "x"'],
  ],
  // References.
  [
    link('to: others'),
    link('to: pets'),
    ['retyped things.code refers to pets instead of others (breaks clients)'],
    ['retyped things.code refers to others instead of pets (breaks clients)'],
  ],
  [
    link('to: others'),
    link('to: [others, pets]'),
    ['retyped things.code refers to others or pets instead of others (breaks clients)'],
    ['retyped things.code refers to others instead of others or pets (breaks clients)'],
  ],
  [
    link('to: [others, pets]'),
    link('to: [others, pets, things]'),
    ['stricter things.code can now also refer to things (breaks clients)'],
    ['stricter things.code can no longer refer to things (breaks clients)'],
  ],
  [
    link('to: others'),
    link('to: others, on_delete: restrict'),
    ['stricter things.code now prevents its record from being deleted (breaks clients)'],
    ['looser things.code now becomes null when its record is deleted'],
  ],
  [
    link('to: others, on_delete: restrict'),
    link('to: others, on_delete: cascade'),
    [
      'stricter things.code now has its own record deleted together with the record that it refers to (breaks clients)',
    ],
    ['stricter things.code now prevents its record from being deleted (breaks clients)'],
  ],
  // Lists.
  [
    text,
    code('type: string, unique: true'),
    ['stricter things.code must now be unique (breaks clients)'],
    ['removed things match code is no longer unique (breaks clients)'],
  ],
  [
    text,
    `${text}\nunique: [[name, code]]`,
    ['stricter things.name+code must now be unique (breaks clients)'],
    ['removed things match name+code is no longer unique (breaks clients)'],
  ],
  [
    text,
    filtered,
    ['added things filter code[eq] is new'],
    ['removed things filter code[eq] was removed (breaks clients)'],
  ],
  [
    amount('any'),
    `${amount('any')}\nfilters: [code.currency]\naggregates: { group_by: [code.currency] }`,
    ['added things filter code.currency[eq] is new'],
    [
      'removed things filter code.currency[eq] was removed (breaks clients)',
      'removed things aggregate group code.currency was removed (breaks clients)',
      'removed things aggregate measure count() was removed (breaks clients)',
    ],
  ],
  // A new or removed field is reported instead of its filters.
  ['', filtered, ['added things.code is new'], ['removed things.code was removed (breaks clients)']],
  [
    text,
    `${text}\nsearch: [code]`,
    ['added things search q is new'],
    ['removed things search q was removed (breaks clients)'],
  ],
  [
    `${text}\nsort: { by: name }`,
    `${text}\nsort: { by: code }`,
    ['retyped things order is now by code instead of name (breaks clients)'],
    ['retyped things order is now by name instead of code (breaks clients)'],
  ],
  [
    'sort: { by: name }',
    `${text}\nsort: { by: code }`,
    ['added things.code is new', 'retyped things order is now by code instead of name (breaks clients)'],
    [
      'removed things.code was removed (breaks clients)',
      'retyped things order is now by name instead of code (breaks clients)',
    ],
  ],
  [
    `${text}\nsort: { by: code, direction: asc }`,
    `${text}\nsort: { by: code, direction: desc }`,
    ['retyped things order is now desc instead of asc (breaks clients)'],
    ['retyped things order is now asc instead of desc (breaks clients)'],
  ],
  [
    `${text}\nsort: { by: code, selectable: false }`,
    `${text}\nsort: { by: code }`,
    [],
    ['removed things parameter sort was removed (breaks clients)'],
  ],
];

describe('an edit, and the edit that reverts it', () => {
  for (const [before, after, changes, reverted] of edits)
    test(`${JSON.stringify(before)} ↔ ${JSON.stringify(after)}`, () => {
      const [old, edited] = [definitionsOf(before), definitionsOf(after)];
      assert.deepEqual(changesBetween(old, edited), changes);
      assert.deepEqual(changesBetween(edited, old), reverted);
      assert.deepEqual(changesBetween(edited, edited), []);
    });
});

const until = 'alias: true, deprecated: 2026-11-22, sunset: 2027-06-30';
const sorted = (name: string, keys = '') =>
  `  ${name}: { type: string${keys} }\nfilters: [${name}]\nsort: { by: ${name} }`;

test('a renamed field breaks clients unless it has an alias, and so does the end of the alias', () => {
  const [old, renamed] = [
    definitionsOf(sorted('code')),
    definitionsOf(sorted('key', ', renamed_from: code')),
  ];
  assert.deepEqual(changesBetween(old, renamed), ['renamed things.code is now key (breaks clients)']);
  const aliased = definitionsOf(sorted('key', `, renamed_from: code, ${until}`));
  assert.deepEqual(changesBetween(old, aliased), [
    'deprecated things.code is now key; the old name works until its sunset date',
  ]);
  assert.deepEqual(changesBetween(aliased, renamed), [
    'removed things.code was removed; it was the former name of key (breaks clients)',
  ]);
});

test('a renamed resource breaks clients unless it has an alias, and so does the end of the alias', () => {
  const old = definitionsOf(text);
  const items = (keys: string) => definitionsOf(`${text}\nrenamed_from: things${keys}`, 'items');
  assert.deepEqual(changesBetween(old, items('')), ['renamed things /things is now /items (breaks clients)']);
  const aliased = items(`\n${until.replaceAll(', ', '\n')}`);
  assert.deepEqual(changesBetween(old, aliased), [
    'deprecated things /things is now /items; the old path works until its sunset date',
  ]);
  assert.deepEqual(changesBetween(aliased, items('')), [
    'removed items path /things was removed (breaks clients)',
  ]);
  const [{ loses } = {}] = apiChanges(apiOf(aliased), apiOf(items('')), items(''));
  assert.deepEqual(loses, { resource: 'things' });
  const reverted = definitionsOf(`${text}\nrenamed_from: items\n${until.replaceAll(', ', '\n')}`);
  assert.deepEqual(changesBetween(aliased, reverted), [
    'deprecated items /items is now /things; the old path works until its sunset date',
  ]);
  assert.deepEqual(changesBetween(old, definitionsOf(text, 'items')), [
    'removed things the path /things was removed (breaks clients)',
    'added items the path /items is new',
  ]);
});

test("a field removed from a renamed resource is also lost under the resource's former name", () => {
  const items = definitionsOf('renamed_from: things', 'items');
  const changes = apiChanges(apiOf(definitionsOf(text)), apiOf(items), items);
  assert.deepEqual(
    changes.map(({ name, loses }) => [name, loses]),
    [
      ['things', { resource: 'things' }],
      ['items.code', { resource: 'things', field: 'code' }],
    ],
  );
});

test('a resource is not considered renamed if it existed alongside the resource with its former name', () => {
  const both = [...definitionsOf(text), ...definitionsOf(text, 'items')];
  assert.deepEqual(changesBetween(both, definitionsOf(`${text}\nrenamed_from: things`, 'items')), [
    'removed things the path /things was removed (breaks clients)',
  ]);
});

test('migrations that do not record the API are not compared with it', () => {
  assert.deepEqual(changesBetween([], definitionsOf(text)), []);
});
