// Files that extend a resource: the merged definition, and the locations of issues.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check.ts';
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
  city: { type: string, renamed_from: town }
filters: [name, { field: zone, operators: [eq] }]
unique: [name, zone]
search: [name]
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
unique: [[name], [fax]]
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
      uniques: [['name', 'zone'], ['name'], ['fax']],
      filters: ['zone', 'fax', 'name'],
      search: ['name', 'fax'],
    },
  );
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
    { 'own/x.yaml': 'extends: leads\ncommon: all\nname: prospects\n' },
    'own/x.yaml:2:1  "common" cannot be changed by a file that extends leads',
    'own/x.yaml:3:1  "name" cannot be changed by a file that extends leads',
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
