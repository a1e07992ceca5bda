// Files that extend a resource: the merged definition, and the locations of issues.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import { YamlError } from '../../engine/yaml/load.ts';

const shipped = {
  'shipped/common.yaml': `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
`,
  'shipped/leads.yaml': `singular: lead
common: all
fields:
  name: { type: string, max_length: 90, description: Name of the lead. }
  zone: { type: string }
  city: { type: string, renamed_from: town, enum: [Berlin, Paris] }
filters: [name, { field: zone, operators: [eq] }]
unique: [name, zone]
search: [name]
screen: { icon: target, columns: [city] }
scopes:
  north: zone == "N"
  ada: name == "Ada"
checks: [{ that: name != city, fields: [name], message: No city. }]
`,
};

const check = (own: Readonly<Record<string, string>>): readonly ResourceDefinition[] =>
  checkSources([
    ...Object.entries(shipped).map(([file, text]) => ({ file, text, isShipped: true })),
    ...Object.entries(own).map(([file, text]) => ({ file, text })),
  ]);

test('fields are added and changed key by key, filters and unique fields are added or replaced, the rest is replaced', () => {
  const [leads] = check({
    'own/leads.yaml': `extends: leads
description: Ours.
fields:
  fax: { type: string }
  name: { max_length: 200 }
filters: [fax, { field: name, operators: [starts_with] }]
unique: [[name], [fax], [name, zone]]
search: [name, fax]
`,
  });
  assert.ok(leads);
  const name = leads.fields.find((field) => field.name === 'name');
  assert.deepEqual(
    {
      resource: leads.name,
      singular: leads.singular,
      file: leads.file,
      description: leads.description,
      fields: leads.fields.map((field) => field.name),
      name: [name?.maxLength, name?.description, name?.location],
      uniques: leads.uniques.map((unique) => unique.map((field) => field.name)),
      filters: leads.filters.map(({ field }) => field.name),
      search: leads.search.map((field) => field.name),
    },
    {
      resource: 'leads',
      singular: 'lead',
      file: 'own/leads.yaml',
      description: 'Ours.',
      fields: ['id', 'organization_id', 'name', 'zone', 'city', 'fax'],
      name: [200, 'Name of the lead.', 'own/leads.yaml:5:3'],
      uniques: [['name'], ['fax'], ['name', 'zone']],
      filters: ['zone', 'fax', 'name'],
      search: ['name', 'fax'],
    },
  );
});

test('values are closed, and checks are added, with their locations', () => {
  const overlay = (that: string) =>
    `extends: leads\nfields:\n  city: { closed: true }\nchecks: [{ that: ${that}, fields: [city], message: No. }]\n`;
  const [leads] = check({ 'own/leads.yaml': overlay('city != zone') });
  const repeated = 'extends: leads\nchecks: [{ that: name != city, fields: [name], message: No city. }]\n';
  assert.equal(check({ 'own/leads.yaml': repeated })[0]?.checks.length, 1);
  assert.deepEqual(
    leads?.checks.map(({ condition, message }) => [condition.source, message]),
    [
      ['name != city', 'No city.'],
      ['city != zone', 'No.'],
    ],
  );
  const city = leads?.fields.find(({ name }) => name === 'city');
  assert.deepEqual(city?.values?.accepted, ['Berlin', 'Paris', '']);
  assert.throws(() => check({ 'own/leads.yaml': overlay('city != nam') }), {
    message: 'own/leads.yaml:4:26  unknown field "nam". Did you mean "name"?',
  });
});

test('a field that only the overlay has is retired', () => {
  const [leads] = check({
    'own/leads.yaml':
      'extends: leads\nfields:\n  fax: { type: string }\n  note: { type: text, retired: true }\n',
  });
  assert.deepEqual(
    leads?.retired.map((field) => field.name),
    ['note'],
  );
});

test('scopes are added or replaced', () => {
  const [leads] = check({
    'own/leads.yaml':
      'extends: leads\nscopes:\n  north: zone in ["N", "NE"]\n  new: fax != null\nfields:\n  fax: { type: string }\n',
  });
  assert.deepEqual(
    leads?.scopes.map(({ name, condition }) => [name, condition.source]),
    [
      ['north', 'zone in ["N", "NE"]'],
      ['ada', 'name == "Ada"'],
      ['new', 'fax != null'],
    ],
  );
});

test('a resource can have up to 20 scopes, including the scopes of the resource that it extends', () => {
  const scopes = Array.from({ length: 18 }, (_, index) => `  s${index}: zone == "N"\n`).join('');
  const [leads] = check({ 'own/leads.yaml': `extends: leads\nscopes:\n${scopes}` });
  assert.equal(leads?.scopes.length, 20);
});

test('lists of children are added or replaced', () => {
  const text = `common: all
fields:
  parent_id: { type: reference, to: visits, nullable: true }
  next_id: { type: reference, to: visits, nullable: true }
children: { parts: { of: visits, by: parent_id }, others: { of: visits, by: next_id } }
`;
  const own = `extends: visits
fields:
  last_id: { type: reference, to: visits, nullable: true }
children: { others: { of: visits, by: next_id, sort: id }, last: { of: visits, by: last_id } }
`;
  const visits = checkSources([
    { file: 'common.yaml', text: shipped['shipped/common.yaml'] },
    { file: 'shipped/visits.yaml', text, isShipped: true },
    { file: 'own/visits.yaml', text: own },
  ])[0];
  assert.deepEqual(
    visits?.children.map(({ name, by, order }) => [name, by, order?.field.name]),
    [
      ['parts', 'parent_id', undefined],
      ['others', 'next_id', 'id'],
      ['last', 'last_id', undefined],
    ],
  );
});

test('a shared owner can become assignable, and nothing else about it can change', () => {
  const definitionOf = (changes: string) =>
    checkSources([
      {
        file: 'common.yaml',
        text: `${shipped['shipped/common.yaml']}  owner_id: { type: int64, read_only: true, set: creator }\n`,
        isShipped: true,
      },
      { file: 'shipped/visits.yaml', text: 'common: all\nfields: {}\n', isShipped: true },
      { file: 'own/visits.yaml', text: `extends: visits\nfields:\n  owner_id: { ${changes} }\n` },
    ])[0];
  const owner = definitionOf('assignable: true')?.fields.find(({ name }) => name === 'owner_id');
  assert.deepEqual([owner?.readOnly, owner?.set], [false, 'creator']);
  for (const changes of ['assignable: true, sensitive: true', 'sensitive: true'])
    assert.throws(() => definitionOf(changes), {
      message:
        'own/visits.yaml:3:3  "owner_id" is a shared field and cannot be changed by a file that extends visits',
    });
});

test('filters and searched fields are removed and added', () => {
  const [leads] = check({
    'own/leads.yaml':
      'extends: leads\nfields:\n  fax: { type: string }\nfilters: { remove: [name], add: [fax, { field: zone, operators: [in] }] }\nsearch: { remove: [name], add: [city] }\n',
  });
  assert.deepEqual(
    leads?.filters.map(({ field, operators }) => [field.name, ...operators]),
    [
      ['fax', 'eq'],
      ['zone', 'in'],
    ],
  );
  assert.deepEqual(
    leads?.search.map(({ name }) => name),
    ['city'],
  );
  const [none] = check({ 'own/leads.yaml': 'extends: leads\nfilters: { remove: [name, zone] }\n' });
  assert.deepEqual(none?.filters, []);
  assert.deepEqual(
    none?.search.map(({ name }) => name),
    ['name'],
  );
});

test('the keys of a screen are changed one by one', () => {
  const [leads] = check({
    'own/leads.yaml': 'extends: leads\nscreen: { section: Sales, columns: [zone] }\nlabel: Prospects\n',
  });
  assert.equal(leads?.label.many, 'Prospects');
  assert.deepEqual(
    [leads?.screen.section, leads?.screen.icon, leads?.screen.columns.map(({ name }) => name)],
    ['Sales', 'target', ['zone']],
  );
});

test('a retired resource keeps its table and is not related to others', () => {
  const definitions = checkSources([
    ...Object.entries(shipped).map(([file, text]) => ({ file, text, isShipped: true })),
    {
      file: 'shipped/visits.yaml',
      text: 'common: none\nfields:\n  lead_id: { type: reference, to: leads, nullable: true }\n  lead_name: { type: joined, through: lead_id, show: [name] }\n  next_id: { type: int64, computed: id + 1 }\n',
      isShipped: true,
    },
    { file: 'own/leads.yaml', text: 'extends: leads\nretired: true\n' },
    {
      file: 'own/visits.yaml',
      text: 'extends: visits\nfields:\n  lead_id: { retired: true }\n  lead_name: { retired: true }\n  next_id: { retired: true }\n',
    },
  ]);
  const [leads, visits] = definitions;
  assert.deepEqual([leads?.isRetired, visits?.isRetired], [true, false]);
  assert.deepEqual(
    visits?.fields.map(({ name }) => name),
    ['id', 'organization_id'],
  );
  assert.deepEqual(
    visits?.retired.map(({ name }) => name),
    ['lead_id'],
  );
});

test('a retired resource leaves the relations of other resources', () => {
  const sources = (retired: string) => [
    { file: 'common.yaml', text: shipped['shipped/common.yaml'] },
    { file: 'leads.yaml', text: 'common: none\nfields: {}\n' },
    {
      file: 'visits.yaml',
      text: `common: none\n${retired}fields:\n  lead_id: { type: reference, to: leads, nullable: true }\n`,
    },
  ];
  const relations = (retired: string) => checkSources(sources(retired))[0]?.expansion.map(({ name }) => name);
  assert.deepEqual(relations(''), ['visits']);
  assert.deepEqual(relations('retired: true\n'), []);
});

const invalid: readonly (readonly [own: Readonly<Record<string, string>>, ...lines: string[]])[] = [
  [
    { 'own/leads.yaml': 'fields:\n  fax: { type: string }\n' },
    'own/leads.yaml:1:1  "leads" is part of the engine. Start the file with "extends: leads" and declare only your changes.',
  ],
  [
    { 'own/common.yaml': 'fields:\n  fax: { type: string }\n' },
    'own/common.yaml:1:1  "common" is part of the engine. Declare additional fields in the resource files.',
  ],
  [{ 'own/x.yaml': 'extends: leeds\n' }, 'own/x.yaml:1:10  unknown resource "leeds". Did you mean "leads"?'],
  [
    { 'own/a.yaml': 'extends: leads\n', 'own/b.yaml': 'extends: leads\n' },
    'own/b.yaml:1:10  "leads" is already extended by own/a.yaml',
  ],
  [
    {
      'own/x.yaml':
        'extends: leads\ncommon: all\nname: prospects\nrenamed_from: prospects\nalias: true\ndeprecated: 2026-11-22\nsunset: 2027-06-30\n',
    },
    ...['common', 'name', 'renamed_from', 'alias', 'deprecated', 'sunset'].map(
      (key, index) => `own/x.yaml:${index + 2}:1  "${key}" cannot be changed by a file that extends leads`,
    ),
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  nam: { max_length: 3 }\n' },
    'own/x.yaml:3:3  unknown field "nam" of leads. Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  area: { type: string, renamed_from: zone }\n' },
    'own/x.yaml:3:25  the field "zone" is still declared. Remove it, or "renamed_from" here.',
    'own/x.yaml:3:39  "zone" is a field of leads, which this file extends, and cannot be renamed here',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  organization_id: { sensitive: true }\n' },
    'own/x.yaml:3:3  "organization_id" is a shared field and cannot be changed by a file that extends leads',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  town: { max_length: 3 }\n' },
    'own/x.yaml:3:3  "town" of leads is now called "city". Rename it here.',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  birthday: { nullable: true }\n' },
    'own/x.yaml:3:3  unknown field "birthday" of leads. A new field needs "type".',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfilters: { remove: [zon], add: [nme] }\nsearch: { remove: [zone] }\n' },
    'own/x.yaml:2:21  "zon" is not in "filters" of leads. Did you mean "zone"?',
    'own/x.yaml:2:33  unknown field "nme". Did you mean "name"?',
    'own/x.yaml:3:20  "zone" is not in "search" of leads. Available: name',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfilters: { delete: [zone] }\n' },
    'own/x.yaml:2:12  unknown key "delete"',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfilters: {}\n' },
    'own/x.yaml:2:10  filters must be a list, or a map such as { remove: [ status ], add: [ created_at ] }',
  ],
  // Issues in the merged definition are reported in the file that causes them.
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  name: { maxlength: 3 }\n' },
    'own/x.yaml:3:11  unknown key "maxlength". Use "max_length".',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  name: { type: int64 }\n' },
    'own/x.yaml:3:9  an int64 field cannot have "max_length"',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfilters: [zone, nme]\n' },
    'own/x.yaml:2:17  unknown field "nme". Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nunique: [zone, nme]\n' },
    'own/x.yaml:2:16  unknown field "nme". Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nsort: { by: nme }\n' },
    'own/x.yaml:2:13  unknown field "nme". Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nscopes:\n  near: zone == "N" || zne == "S"\n' },
    'own/x.yaml:3:24  unknown field "zne". Did you mean "zone"?',
  ],
  // The extended resource already has two scopes.
  [
    {
      'own/x.yaml': `extends: leads\nscopes:\n${Array.from({ length: 19 }, (_, index) => `  s${index}: zone == "N"\n`).join('')}`,
    },
    'own/x.yaml:2:1  a resource can have at most 20 scopes',
  ],
  // A change in the overlay can make a list of the extended file invalid.
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  zone: { retired: true }\nscopes: { north: id == 1 }\n' },
    'shipped/leads.yaml:7:26  unknown field "zone"',
    'shipped/leads.yaml:8:16  unknown field "zone"',
  ],
  // A change in the overlay can make a shipped scope invalid.
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  zone: { group: place }\n' },
    'shipped/leads.yaml:12:10  "zone" belongs to the group "place", so a scope cannot read it',
    'own/x.yaml:3:11  "zone" is unique together with "name", which is not in the group "place"',
  ],
];

describe('issues', () => {
  for (const [own, ...lines] of invalid) {
    test(lines[0] ?? '', () => {
      assert.throws(
        () => check(own),
        (error) => {
          assert.ok(error instanceof YamlError, String(error));
          assert.deepEqual(error.message.split('\n'), lines);
          return true;
        },
      );
    });
  }
});
