// Commands that edit definitions keep the existing text byte for byte.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { withEntry, withItem } from '../../engine/yaml/edit.ts';
import { temporaryFolder } from '../support/instance.ts';
import { assertRefused, crm, project } from '../support/process.ts';

describe('entries and items', () => {
  const cases: readonly (readonly [name: string, before: string, after: string])[] = [
    [
      'keeps comments, quotes, blank lines and folded texts',
      '# top\nfields:\n    a: {type: "string"}   # why\n\n    # below\n    b:\n      type: \'text\'\n      description: >\n        many\n        words\n\n# end\nfilters: [ a,\n  b ] # these\n',
      '# top\nfields:\n    a: {type: "string"}   # why\n\n    # below\n    b:\n      type: \'text\'\n      description: >\n        many\n        words\n    n: { type: date }\n\n# end\nfilters: [ a,\n  b, n ] # these\n',
    ],
    [
      'a block list, and a file without a final line break',
      'filters:\n  - a # one\n  - { field: b, operators: [eq] }\nfields:\n  a: { type: string }',
      'filters:\n  - a # one\n  - { field: b, operators: [eq] }\n  - n\nfields:\n  a: { type: string }\n  n: { type: date }\n',
    ],
    [
      'Windows line breaks',
      'fields:\r\n  a: { type: string }\r\nsort: { by: id }\r\n',
      'fields:\r\n  a: { type: string }\r\n  n: { type: date }\r\nsort: { by: id }\r\nfilters: [n]\r\n',
    ],
    [
      'missing maps and lists',
      'extends: leads\n',
      'extends: leads\nfields:\n  n: { type: date }\nfilters: [n]\n',
    ],
    [
      'a map without entries',
      'fields:\nsort: { by: id }\n',
      'fields:\n  n: { type: date }\nsort: { by: id }\nfilters: [n]\n',
    ],
    [
      'changes to a list of another file, which stay as they are',
      'fields: {}\nfilters: { remove: [a] }\n',
      'fields: { n: { type: date } }\nfilters: { remove: [a] }\n',
    ],
    ['empty maps and lists', 'fields: {}\nfilters: []\n', 'fields: { n: { type: date } }\nfilters: [n]\n'],
    [
      'a map on one line',
      'fields: { a: { type: string } }\n',
      'fields: { a: { type: string }, n: { type: date } }\nfilters: [n]\n',
    ],
  ];
  for (const [name, before, after] of cases) {
    test(name, () =>
      assert.equal(withItem(withEntry(before, 'fields', 'n', '{ type: date }'), 'filters', 'n'), after),
    );
  }
});

describe('commands', { concurrency: 1 }, () => {
  const { path, remove } = temporaryFolder();
  const file = (name: string) => join(path, 'resources', name);
  const text = (name: string) => readFileSync(file(name), 'utf8');
  before(() => {
    mkdirSync(file(''));
    writeFileSync(join(path, 'package.json'), '{ "dependencies": { "crm-engine": "*" } }');
    cpSync(join(project, 'config.yaml'), join(path, 'config.yaml'));
  });
  after(remove);
  const add = (...args: string[]) => crm(['add', ...args], {}, { cwd: path });

  test('adds fields of a shipped resource to a file that extends it', async () => {
    const first = await add(
      'field',
      'leads',
      'fax',
      'string',
      '--filter',
      '--description',
      'Fax: with a colon.',
    );
    assert.deepEqual([first.code, first.stderr], [0, '']);
    assert.match(first.stdout, /^Added to resources\/leads.yaml:\n {2}fax: /);
    await add('field', 'leads', 'visits', 'integer', '--default', '3');
    const [comment = '', ...lines] = text('leads.yaml').split('\n');
    assert.equal(comment, '# yaml-language-server: $schema=.schemas/leads.json');
    assert.deepEqual(lines, [
      'extends: leads',
      'fields:',
      '  fax: { type: string, description: "Fax: with a colon." }',
      '  visits: { type: integer, default: 3 }',
      'filters: [fax]',
      '',
    ]);
  });

  test('adds a resource and a reference to it', async () => {
    assert.equal((await add('resource', 'deliveries')).code, 0);
    assert.match(text('deliveries.yaml'), /\nsingular: delivery\ncommon: all\nfields:\n {2}name: /);
    const retired = text('deliveries.yaml').replace(
      /\n {2}name: .*/,
      '$&\n  former: { type: string, retired: true }',
    );
    writeFileSync(file('deliveries.yaml'), retired);
    assert.equal((await add('field', 'leads', 'delivery_id', 'reference', '--to', 'deliveries')).code, 0);
    assert.match(
      text('leads.yaml'),
      /\n {2}delivery_id: \{ type: reference, to: deliveries, nullable: true \}\n/,
    );
  });

  const refused: readonly (readonly [args: readonly string[], message: string])[] = [
    [['field', 'leeds', 'a', 'string'], 'unknown resource "leeds". Did you mean "leads"?'],
    [['field', 'leads', 'a', 'interger'], 'unknown type "interger". Did you mean "integer"?'],
    [['field', 'leads', 'email', 'string'], 'leads already has a field "email"'],
    [['field', 'deliveries', 'former', 'string'], 'deliveries already has a field "former"'],
    [['resource', 'deliveries'], 'resources/deliveries.yaml already exists'],
  ];
  for (const [args, message] of refused) {
    test(args.join(' '), async () => assertRefused(await add(...args), message));
  }

  test('writes nothing if the result would be invalid', async () => {
    const files = readdirSync(file('')).map((name) => text(name));
    const { code, stderr } = await add('field', 'deliveries', 'due', 'timestamp');
    assert.equal(code, 1);
    assert.equal(
      stderr,
      'crm: resources/deliveries.yaml:7:3  a timestamp field needs "nullable: true", "required: true" or a default\nNothing was written.\n',
    );
    assert.deepEqual(
      readdirSync(file('')).map((name) => text(name)),
      files,
    );
  });

  test('reports a package.json that is not JSON', async () => {
    const other = temporaryFolder();
    writeFileSync(join(other.path, 'package.json'), '{');
    assertRefused(
      await crm(['add', 'resource', 'visits'], {}, { cwd: other.path }),
      /^crm: Cannot read \/.*\/package\.json: /,
    );
    other.remove();
  });

  test('adds fields of an own resource to its file', async () => {
    for (const args of [
      ['code', 'string', '--default', '007'],
      ['count', 'integer', '--default', '007'],
      ['lead_ids', 'references', '--to', 'leads'],
      ['account_id', 'reference', '--to', 'accounts', '--required', '--on-delete', 'restrict'],
      ['parent_id', 'reference', '--to', 'accounts, contacts'],
      ['account_name', 'joined', '--through', 'account_id', '--show', 'name, industry'],
      ['price', 'money', '--currency', 'EUR', '--nullable'],
    ])
      assert.equal((await add('field', 'deliveries', ...args)).stderr, '');
    assert.match(
      text('deliveries.yaml'),
      /\n {2}code: \{ type: string, default: "007" \}\n {2}count: \{ type: integer, default: 7 \}\n {2}lead_ids: \{ type: references, to: leads \}\n {2}account_id: \{ type: reference, to: accounts, on_delete: restrict, required: true \}\n {2}parent_id: \{ type: reference, to: \[ accounts, contacts \], nullable: true \}\n {2}account_name: \{ type: joined, through: account_id, show: \[ name, industry \] \}\n {2}price: \{ type: money, currency: EUR, nullable: true \}\n/,
    );
  });
});
