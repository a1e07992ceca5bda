// A file that extends a resource: what becomes of it, and which mistakes are told where.
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
      name: [name?.maxLength, name?.description, name?.place],
      uniques: leads.uniques.map((unique) => unique.map((field) => field.name)),
      filters: leads.filters.map(({ field }) => field.name),
      search: leads.search.map((field) => field.name),
    },
    {
      resource: 'leads',
      singular: 'lead',
      file: 'own/leads.yaml',
      description: 'Ours.',
      fields: ['id', 'organization_id', 'name', 'zone', 'fax'],
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

const mistakes: readonly (readonly [own: Readonly<Record<string, string>>, ...lines: string[]])[] = [
  [
    { 'own/leads.yaml': 'fields:\n  fax: { type: string }\n' },
    'own/leads.yaml:1:1  "leads" comes with the engine: begin with "extends: leads", and write only what differs',
  ],
  [
    { 'own/common.yaml': 'fields:\n  fax: { type: string }\n' },
    'own/common.yaml:1:1  "common" comes with the engine: give further fields in the files of the resources, and write only what differs',
  ],
  [
    { 'own/x.yaml': 'extends: leeds\n' },
    'own/x.yaml:1:10  there is no resource "leeds" to extend. Did you mean "leads"?',
  ],
  [
    { 'own/a.yaml': 'extends: leads\n', 'own/b.yaml': 'extends: leads\n' },
    'own/b.yaml:1:10  "leads" is extended by own/a.yaml already',
  ],
  [
    { 'own/x.yaml': 'extends: leads\ncommon: all\nname: prospects\n' },
    'own/x.yaml:2:1  "common" cannot be changed by a file that extends leads',
    'own/x.yaml:3:1  "name" cannot be changed by a file that extends leads',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  nam: { max_length: 3 }\n' },
    'own/x.yaml:3:3  leads have no field "nam" to change, and a new one needs "type". Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  area: { type: string, renamed_from: zone }\n' },
    'own/x.yaml:3:39  "zone" is a field of the leads that are extended: it keeps its name',
  ],
  // Mistakes of the whole are shown in the file that makes them.
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  name: { maxlength: 3 }\n' },
    'own/x.yaml:3:11  unknown key "maxlength": use "max_length"',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfields:\n  name: { type: int64 }\n' },
    'own/x.yaml:3:9  a int64 field has no "max_length"',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nfilters: [zone, nme]\n' },
    'own/x.yaml:2:17  unknown field "nme". Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nunique: [zone, nme]\n' },
    'own/x.yaml:2:16  no field "nme". Did you mean "name"?',
  ],
  [
    { 'own/x.yaml': 'extends: leads\nsort: { by: nme }\n' },
    'own/x.yaml:2:13  unknown field "nme". Did you mean "name"?',
  ],
];

describe('mistakes', () => {
  for (const [own, ...lines] of mistakes) {
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
