// Editor schemas reject the same files as `crm check`, as far as JSON Schema can, and complete names.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { nameSchemas, writeSchemas } from '../../app/commands/editors.ts';
import { readConfig } from '../../app/config.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { editorSchemas } from '../../engine/definition/editor.ts';
import { fileStem, readSources, resourceSchema } from '../../engine/definition/sources.ts';
import { parseYaml } from '../../engine/yaml/load.ts';
import { settingsEditorSchema } from '../../webhooks/settings/editor.ts';
import { temporaryFolder } from '../support/instance.ts';
import { type Files, wrongFiles } from './invalid-files.ts';

const options = {
  validateFormats: false,
  allowUnionTypes: true,
  strictTypes: false,
  strictRequired: false,
  validateSchema: false,
} as const;
const validator = new Validator(options).addVocabulary(['x-expected', 'enumDescriptions']);
validator.addSchema(editorSchemas([]).get('_resource') ?? {}, '_resource.json');

/** Returns whether an editor would report an error in one of the files. */
function isMarked(files: Files): boolean {
  const sources = Object.entries(files).map(([file, text]) => ({ file, text }));
  const schemas = editorSchemas(sources);
  return sources.some((source) => {
    const parsed = parseYaml(source, []);
    const schema = schemas.get(fileStem(source.file));
    return parsed === undefined || !validator.compile(schema ?? false)(parsed.data);
  });
}

/**
 * Errors that JSON Schema cannot detect, because they depend on two locations, the file name, other files or
 * a calculation.
 */
const beyondSchemas = [
  /^(crm|pg)_x\.yaml.*names that start with/,
  /^events\.yaml.*is reserved for event subscriptions/,
  /^members\.yaml.*is reserved for members/,
  /^fields\.yaml.*is reserved for custom fields/,
  /two files define the resource/,
  /is not a valid RE2 regular expression|is not a valid JSON Schema/,
  /needs the same column as/,
  /the file name must be/,
  /A default is a fixed value/,
  /is already the current name|is also the name of a (field|resource)|is still declared|is already renamed from/,
  /is declared twice|is a filter, but also a parameter of aggregates/,
  /no record could be created|must not form a cycle/,
  /is already the singular of/,
  /^things\.yaml.*the board needs "a" in "filters"/,
  /is not in "enum"|a new record could not have a value|differ only in case or spaces/,
  /the fields need 1652 columns/,
  /cannot be one of several resources|would be longer than 63 characters/,
  // Rules that exclude each other, or the value of an omitted field.
  /is greater than "max|the value is 0 if it is omitted|the default must be at least|must be between -\(2\^53|compare values differently|must be an email address/,
  /the default must be an object such as|the default\.rooms must be|integers in the default/,
  /is unique already|these fields are already unique|only one record could have|"(a|owner_id)" is .* and cannot be unique|unknown scope/,
  /a default cannot read it|cannot read "a" itself|"c" has "default_from" itself/,
  // Conditions of checks.
  /unknown field "b"|the expression must be|is not a field of the condition|cannot depend on the caller|would reveal the values|must read a field/,
  /is a money field\. Write|is not a value of "|unknown field "paid"\. Write/,
  // Conditions, and groups of fields that are used together.
  /unknown field "idd"|a \(text\) cannot be compared|cannot be in "my_team"|a scope cannot read|is now called "a"|"a"\. Available: id/,
  /"a" already contains the lines|is also the name of a resource that refers to quotes/,
  // Expressions of computed fields and rollups, and types that depend on another file.
  /cannot be computed from itself|depend on the current (time|date)|and "a" would reveal its values|must not form a cycle|cannot be moved by a duration|is too long, together/,
  /"(sum|max|avg)" of an? \w+ field needs|unknown field "limit"|has scopes, but|which an expression cannot read/,
  /lists are ordered by "a"|is searched by every caller|is unique together with|which belongs to the group/,
];

describe('editors mark what `crm check` rejects', () => {
  for (const [files, ...lines] of wrongFiles) {
    const isBeyond = beyondSchemas.some((pattern) => pattern.test(lines[0] ?? ''));
    test(`${isBeyond ? 'beyond schemas: ' : ''}${lines[0]}`, () => assert.equal(isMarked(files), !isBeyond));
  }
});

describe("an instance's schemas", () => {
  const texts = {
    'common.yaml':
      'fields:\n  id: { type: int64, read_only: true, set: id }\n  organization_id: { type: int64, read_only: true, set: organization }',
    'a.yaml':
      'common: all\nfields:\n  b_id: { type: reference, to: bs, nullable: true }\n  b_name: { type: joined, through: b_id, show: [title] }\n  due: { type: date, nullable: true }\nfilters: [{ field: due, operators: [gte, is_null] }, b_id]\nsort: { by: due }\n',
    'b.yaml': 'name: bs\ncommon: all\nfields:\n  title: { type: string }\nsearch: [title]\n',
  };

  test('accept valid files and those of this project', async () => {
    assert.equal(isMarked(texts), false);
    const shipped = await readSources(readConfig({}).resources);
    assert.equal(
      isMarked(Object.fromEntries(shipped.map(({ file, text }) => [fileStem(file), text]))),
      false,
    );
  });

  test('accept every key where it is valid', () => {
    const files = {
      'common.yaml': `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  owner_id: { type: int64, read_only: true, set: creator }
  editor_id: { type: int64, read_only: true, set: editor }
  created_at: { type: timestamp, read_only: true, set: created }
`,
      'things.yaml': `singular: thing
description: Things.
label: { one: Thing, many: Things }
help: What they are.
common: all
renamed_from: items
alias: true
deprecated: 2026-11-22
sunset: 2027-06-30
fields:
  owner_id: { assignable: true }
  name: { type: string, required: true, unique: true, max_length: 40, min_length: 2, pattern: "^x", message: No. }
  kind: { type: string, enum: [a, b], closed: true, default: a, initial: [b], transitions: { a: [b], b: { a: own } } }
  mood: { type: string, suggested: [x], lookup: caseless }
  email: { type: string, format: email, nullable: true, label: Mail, help: Where., description: An address. }
  tags: { type: list, enum: [x], closed: true, max_items: 3, nullable: false, required: false }
  numbers: { type: list, of: integer }
  price: { type: money, currency: any, nullable: true, min: 0, max: 9 }
  cost: { type: money, currency: EUR, default: { amount: 0, currency: EUR } }
  details: { type: json, nullable: true, schema: { type: object } }
  more: { type: json, default: {} }
  number: { type: string, sequence: "T-{year}-{0000}", nullable: false, required: false, unique: false }
  boss_id: { type: user, nullable: true, default_from: me }
  due: { type: date, nullable: true, default_from: today }
  at: { type: timestamp, required: true }
  size: { type: integer, min: 1, max: 3, default: 2 }
  isDone: { type: boolean }
  parent_id: { type: reference, to: things, nullable: true, unique: true }
  pet_id: { type: reference, to: pets, required: true, on_delete: cascade }
  about: { type: reference, to: [things, pets], nullable: true, on_delete: restrict }
  pet_ids: { type: references, to: pets, on_delete: restrict }
  parent_name: { type: joined, through: parent_id, show: [name, mood] }
  doubled: { type: number, computed: size * 2, group: inner }
  worth: { type: money, currency: EUR, computed: cost.amount * 2 }
  count: { type: integer, rollup: { count: true, of: pets, by: thing_id, where: weight > 1, stored: true } }
  oldest: { type: date, rollup: { min: born, of: pets, by: thing_id } }
  total: { type: number, rollup: { sum: weight, of: pets, by: thing_id, unscoped: true } }
  secret: { type: string, sensitive: true, group: inner }
  phase: { type: string, renamed_from: stage, alias: true, deprecated: 2026-11-22, sunset: 2027-06-30 }
  old_id: { type: reference, to: olds, nullable: true, retired: true }
filters: [kind, { field: due, operators: [gte, is_null] }, price.currency, { field: tags, operators: [eq] }]
search: [name, email]
sort: { by: due, direction: desc }
unique: [[mood, kind], [boss_id, due]]
scopes: { own: owner_id == me, team: boss_id in my_team }
checks: [{ that: due == null || size > 1, fields: [due, size], message: No. }]
locked: { when: kind == "b", message: Locked. }
trash: 30 days
custom_fields: true
aggregates: { group_by: [kind, due, price.currency], measures: [size, cost] }
children: { beasts: { of: pets, by: thing_id, sort: { by: born, direction: desc }, writable: true }, parts: { of: things, by: parent_id, sort: due } }
screen: { section: Main, icon: target, title: [name, due], columns: [kind, boss_id], board: kind }
`.replace('isDone', 'is_done'),
      'pets.yaml': `singular: pet
common: [id, organization_id]
fields:
  thing_id: { type: reference, to: things, nullable: true }
  keeper_id: { type: reference, to: things, nullable: true, read_only: true }
  born: { type: date, nullable: true }
  weight: { type: number }
`,
      'olds.yaml': `common: none
retired: true
fields:
  other_id: { type: reference, to: olds, nullable: true }
`,
      'bare.yaml': `common: []
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  custom: { type: string }
  trashed: { type: string }
`,
    };
    checkSources(Object.entries(files).map(([file, text]) => ({ file, text })));
    assert.equal(isMarked(files), false);
    const { 'common.yaml': common, 'things.yaml': things, ...others } = files;
    const overlay =
      'extends: things\nlabel: Stuff\nfields:\n  name: { message: Too short. }\n  count: { label: Beasts }\n  kind: { transitions: { b: [] } }\n  number: { description: Counts. }\n  more: { retired: true }\nfilters: { remove: [due], add: [mood] }\nsearch: [email]\nscreen: { columns: [mood] }\n';
    const sources = [
      ...Object.entries({ 'common.yaml': common, 'things.yaml': things }).map(([file, text]) => ({
        ...{ file, text },
        isShipped: true,
      })),
      ...Object.entries({ ...others, 'own/things.yaml': overlay }).map(([file, text]) => ({ file, text })),
    ];
    checkSources(sources);
    const schema = editorSchemas(sources).get('things') ?? false;
    const accepts = validator.compile(schema);
    assert.ok(accepts(parseYaml({ file: '', text: overlay }, [])?.data), JSON.stringify(accepts.errors));
  });

  test("are written next to the files, which reference them; this project's schemas are up to date", async () => {
    const { path, remove } = temporaryFolder();
    try {
      for (const [file, text] of Object.entries(texts)) writeFileSync(join(path, file), text);
      const settingsFile = join(path, '../settings.yaml');
      const config = { resources: path, shippedResources: null, modules: [], settingsFile };
      assert.equal((await writeSchemas(config)).length, 5);
      assert.deepEqual(readdirSync(join(path, '.schemas')), [
        '_config.json',
        '_resource.json',
        'a.json',
        'b.json',
        'common.json',
      ]);
      assert.equal((await nameSchemas(config)).length, 3, 'settings.yaml does not exist');
      const commented = join(path, 'b.yaml');
      writeFileSync(commented, `# Ours.\n${readFileSync(commented, 'utf8')}`);
      assert.equal((await nameSchemas(config)).length, 0, 'each file already has a line');
      const weather = { name: 'weather', settings: { type: 'object' } };
      await writeSchemas({ ...config, modules: [weather] });
      assert.match(readFileSync(join(path, '.schemas/_config.json'), 'utf8'), /"weather"/);
      const [first] = readFileSync(join(path, 'a.yaml'), 'utf8').split('\n');
      assert.equal(first, '# yaml-language-server: $schema=.schemas/a.json');
      assert.equal(checkSources(await readSources(path)).length, 2);
    } finally {
      remove();
    }
    const { resources } = readConfig({});
    const schemas = editorSchemas(await readSources(resources));
    for (const [name, schema] of [...schemas, ['_config', settingsEditorSchema({})] as const]) {
      const written: unknown = JSON.parse(readFileSync(join(resources, '.schemas', `${name}.json`), 'utf8'));
      assert.deepEqual(written, JSON.parse(JSON.stringify(schema)), `${name}: run crm schema`);
    }
  });

  test('know the names of the extended resource and of the overlay', () => {
    const shipped = Object.entries(texts).map(([file, text]) => ({ file, text, isShipped: true }));
    const marks = (text: string) => {
      const schemas = editorSchemas([...shipped, { file: 'own/a.yaml', text }]);
      assert.deepEqual([...schemas.keys()], ['_resource', 'a']);
      return !validator.compile(schemas.get('a') ?? false)(parseYaml({ file: '', text }, [])?.data);
    };
    const overlay =
      'extends: a\nfields:\n  due: { description: Until when. }\n  note: { type: text }\nsearch: [note]\nsort: { by: due }\n';
    assert.equal(marks(overlay), false);
    assert.equal(marks(overlay.replace('search: [note]', 'search: [due]')), true);
    assert.equal(marks(overlay.replace('by: due', 'by: dew')), true);
  });

  for (const [name, from, to] of [
    ['to', 'to: bs', 'to: b'],
    ['through', 'through: b_id', 'through: due'],
    ['show', 'show: [title]', 'show: [id]'],
    ["a filter's field", '{ field: due', '{ field: dew'],
    ['an operator that the type does not support', '[gte, is_null]', '[starts_with]'],
    ['a filter', 'b_id]\n', 'b_name]\n'],
    ['sort', 'by: due', 'by: b_name'],
    ['a redeclared shared field', 'due: {', 'id: {'],
  ] as const) {
    test(`reject an invalid name: ${name}`, () =>
      assert.equal(isMarked({ ...texts, 'a.yaml': texts['a.yaml'].replace(from, to) }), true));
  }

  test('are valid JSON Schemas with a description for each key', () => {
    const strict = new Validator({ ...options, validateSchema: true }).addVocabulary([
      'x-expected',
      'enumDescriptions',
    ]);
    const sources = Object.entries(texts).map(([file, text]) => ({ file, text }));
    for (const schema of editorSchemas(sources).values()) assert.ok(strict.validateSchema(schema, true));
    const { properties, $defs } = resourceSchema;
    for (const [key, schema] of Object.entries({ ...properties, ...$defs.field.properties })) {
      assert.ok('description' in schema, key);
    }
  });
});
