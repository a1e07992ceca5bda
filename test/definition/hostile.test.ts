// Hostile YAML is rejected with its location, quickly, and without polluting prototypes.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { readSources } from '../../engine/definition/sources.ts';
import { UserError } from '../../engine/errors.ts';
import { YamlError, type YamlIssue } from '../../engine/yaml/load.ts';
import { takes } from '../support/clock.ts';
import { temporaryFolder } from '../support/instance.ts';

const head = [
  'fields:',
  '  id: { type: int64, read_only: true, set: id }',
  '  organization_id: { type: int64, read_only: true, set: organization }',
];
const things = (...lines: string[]) => [...head, ...lines, ''].join('\n');

/** Returns the issues in a definition, which must be found within a second. */
const issuesOf = (text: string): readonly YamlIssue[] =>
  takes(1000, () => {
    try {
      checkSources([{ file: 'things.yaml', text }]);
      return [];
    } catch (error) {
      assert.ok(error instanceof YamlError, String(error));
      return error.issues;
    }
  });

/** Asserts that the work throws a YamlError, and returns it. */
function assertYamlError(work: () => unknown): YamlError {
  try {
    work();
  } catch (error) {
    if (error instanceof YamlError) return error;
    throw error;
  }
  return assert.fail('it was accepted');
}

/** Nine lists, each with ten aliases of the previous one. */
const bomb = [...'abcdefghi']
  .map((name, index, all) => {
    const item = index === 0 ? 'x' : `*${all[index - 1]}`;
    return `${name}: &${name} [${Array(10).fill(item)}]`;
  })
  .join('\n');

const rejected: readonly (readonly [name: string, text: string, place: string, message: RegExp])[] = [
  ['an alias', things('  a: &x { type: string }', '  b: *x'), '5:6', /^aliases .* are not allowed/],
  ['aliases that expand to 10^9 nodes', bomb, '2:8', /^aliases .* are not allowed/],
  ['a merge key', things('  a: { type: string, <<: { nullable: true } }'), '4:22', /^unknown key "<<"/],
  ['a merged alias', things('  a: &x { type: string }', '  b:', '    <<: *x'), '6:9', /^aliases /],
  [
    'a duplicate key',
    things('  a: { type: string }', '  a: { type: text }'),
    '5:3',
    /^"(a|sort)" is a duplicate key/,
  ],
  [
    'a duplicate resource key',
    things('sort: { by: id }', 'sort: { by: id }'),
    '5:1',
    /^"(a|sort)" is a duplicate key/,
  ],
  [
    '__proto__ as a field',
    things('  __proto__: { type: string }'),
    '4:3',
    /^"__proto__" must be a lowercase letter/,
  ],
  [
    '__proto__ in a field',
    things('  a: { type: string, __proto__: { set: id } }'),
    '4:22',
    /^unknown key "__proto__"/,
  ],
  ['__proto__ in a resource', things('__proto__: { polluted: true }'), '4:1', /^unknown key "__proto__"/],
  [
    'an escaped "__proto__"',
    things('  "\\x5f_proto__": { type: string }'),
    '4:3',
    /^"__proto__" must be a lowercase letter/,
  ],
  [
    'constructor as a field',
    things('  constructor: { type: string }'),
    '4:3',
    /^"constructor" is a reserved name/,
  ],
  ['a JavaScript tag', things('  a: { type: !!js/function "x" }'), '4:14', /^tags .* are not allowed/],
  ['a binary tag', things('  a: { type: string, default: !!binary aGk= }'), '4:22', /^the default must be/],
  [
    'a nested binary tag',
    things('  a: { type: json, default: { b: !!binary aGk= } }'),
    '4:20',
    /^the default must be/,
  ],
  ['a custom tag', `!thing\n${things()}`, '1:1', /^tags .* are not allowed/],
  ['an infinite number', things('  a: { type: number, default: .inf }'), '4:31', /^default must be/],
  ['not a number', things('  a: { type: number, default: .nan }'), '4:31', /^default must be/],
  ['two documents', things('---', 'fields: {}'), '4:1', /^a second document starts/],
  ['a tab as indentation', things('\tsort: { by: id }'), '4:1', /^this line is indented with a tab/],
  ['a list as the file', '- fields\n', '1:1', /^the file must be/],
  ['a scalar as the file', 'fields', '1:1', /^the file must be/],
  ['an empty file', '', '1:1', /^the file must be/],
  ['only a comment', '# fields:\n', '1:1', /^the file must be/],
];

describe('hostile YAML', () => {
  for (const [name, text, place, message] of rejected) {
    test(`rejects ${name} with its location`, () => {
      const [problem, ...more] = issuesOf(text);
      assert.match(problem?.message ?? 'accepted', message);
      assert.equal(`${problem?.line}:${problem?.column}`, place);
      assert.ok(more.length <= 1000, 'not one issue for each alias');
      assert.equal(({} as { polluted?: unknown }).polluted, undefined);
      assert.equal(({} as { set?: unknown }).set, undefined);
    });
  }

  for (const [name, text] of [
    ['unclosed lists', `fields: ${'['.repeat(20_000)}`],
    ['lists', `fields: ${'['.repeat(20_000)}${']'.repeat(20_000)}`],
    ['maps', `fields: ${'{a: '.repeat(20_000)}${'}'.repeat(20_000)}`],
    ['indented maps', Array.from({ length: 1500 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')],
    ['list items', `fields:\n  ${'- '.repeat(20_000)}x`],
  ] as const) {
    test(`rejects deeply nested ${name} with at most 20 issues and without a stack overflow`, () => {
      const problems = issuesOf(text);
      assert.ok(problems.length >= 1 && problems.length <= 20, `${problems.length} lines`);
      for (const { file, line, column, message } of problems) {
        assert.equal(file, 'things.yaml');
        assert.ok(line >= 1 && column >= 1);
        assert.doesNotMatch(message, /call stack/i);
      }
    });
  }

  test('plain scalars follow YAML 1.2: NO is a string and 010 is 10', () => {
    const text = things(
      '  a: { type: string, default: NO }',
      '  b: { type: integer, default: 010 }',
      '  c: { type: integer, default: 0x10 }',
      '  d: { type: string, default: 2026-03-01 }',
      '  e: { type: boolean, default: true }',
    );
    const [resource] = checkSources([{ file: 'things.yaml', text }]);
    assert.deepEqual(
      resource?.fields.slice(2).map((field) => field.default),
      ['NO', 10, 16, '2026-03-01', true],
    );
  });

  test('rejects 5,000 fields within seconds', () => {
    const fields = Array.from({ length: 5_000 }, (_, index) => `  f${index}: { type: string }`);
    const text = things(...fields);
    takes(10_000, () =>
      assert.throws(() => checkSources([{ file: 'things.yaml', text }]), /the fields need 5002 columns/),
    );
  });
});

describe('the resources folder', () => {
  test('the shipped resources are valid, and their fields are described', async () => {
    const sources = await readSources(readConfig({}).resources);
    const definitions = checkSources(sources);
    assert.deepEqual(
      definitions.map(({ name }) => name),
      ['accounts', 'cases', 'contacts', 'leads', 'opportunities'],
    );
    for (const { fields } of definitions) {
      for (const field of fields) assert.notEqual(field.description, '', `${field.name} is described`);
    }
  });

  const text = things();
  for (const [kind, name, bytes, place, message] of [
    [
      'over 1 MiB',
      'a.yaml',
      Buffer.from(`# ${'x'.repeat(1024 * 1024)}\n`),
      '1:1',
      'the file is larger than 1 MiB',
    ],
    [
      'in Latin-1',
      'a.yaml',
      Buffer.from(text.replace('fields', '# é, Grün: Größe\nfields'), 'latin1'),
      '1:3',
      'invalid UTF-8. Save the file as UTF-8.',
    ],
    [
      'in Latin-1, in a later line',
      'a.yaml',
      Buffer.from(things('# Größe'), 'latin1'),
      '4:5',
      'invalid UTF-8. Save the file as UTF-8.',
    ],
    [
      'in UTF-16',
      'a.yaml',
      Buffer.from(`\ufeff${text}`, 'utf16le'),
      '1:1',
      'the file is UTF-16. Save it as UTF-8.',
    ],
    [
      'in big-endian UTF-16',
      'a.yaml',
      Buffer.from(`\ufeff${text}`, 'utf16le').swap16(),
      '1:1',
      'the file is UTF-16. Save it as UTF-8.',
    ],
    [
      'in a subfolder',
      'sub/a.yaml',
      Buffer.from(text),
      '1:1',
      /^subfolders are not read\. Move this file to .*, or delete it\.$/,
    ],
  ] as const) {
    test(`rejects a file ${kind} with its location, and still reports errors in other files`, async () => {
      const { path, remove } = temporaryFolder();
      try {
        mkdirSync(dirname(join(path, name)), { recursive: true });
        writeFileSync(join(path, name), bytes);
        writeFileSync(join(path, 'b.yaml'), things('colour: red'));
        const sources = await readSources(path);
        const { issues: problems } = assertYamlError(() => checkSources(sources));
        const [issue, ...more] = problems.filter(({ file }) => file.endsWith(name));
        assert.equal(`${issue?.line}:${issue?.column}`, place);
        assert.match(
          issue?.message ?? '',
          typeof message === 'string' ? new RegExp(`^${message}$`) : message,
        );
        assert.deepEqual([more.length, problems.length], [0, 2]);
      } finally {
        remove();
      }
    });
  }

  test('reads a file of 1 MiB', async () => {
    const { path, remove } = temporaryFolder();
    try {
      writeFileSync(join(path, 'a.yaml'), text.padEnd(1024 * 1024, '#'));
      assert.deepEqual(
        (await readSources(path)).map(({ issue, text: { length } }) => [issue, length]),
        [[undefined, 1024 * 1024]],
      );
    } finally {
      remove();
    }
  });

  test('subfolders whose names start with a dot, and other files in subfolders, are ignored', async () => {
    const { path, remove } = temporaryFolder();
    try {
      for (const folder of ['.git', 'notes']) mkdirSync(join(path, folder));
      writeFileSync(join(path, '.git/a.yaml'), text);
      writeFileSync(join(path, 'notes/a.md'), text);
      assert.deepEqual(await readSources(path), []);
    } finally {
      remove();
    }
  });

  test('reads only *.yaml and *.yml files, ordered by name', async () => {
    const { path, remove } = temporaryFolder();
    try {
      for (const name of ['b.yaml', 'a.yml', 'c.yaml~', 'README.md', '.d.yaml.swp'])
        writeFileSync(join(path, name), name);
      const sources = await readSources(path);
      assert.deepEqual(
        sources.map(({ text }) => text),
        ['a.yml', 'b.yaml'],
      );
    } finally {
      remove();
    }
  });

  for (const [name, make] of [
    ['a broken link', (path: string) => symlinkSync(join(path, 'nowhere'), join(path, 'a.yaml'))],
    ['a link to a folder', (path: string) => symlinkSync('/', join(path, 'a.yaml'))],
    ['a link to itself', (path: string) => symlinkSync(join(path, 'a.yaml'), join(path, 'a.yaml'))],
  ] as const) {
    test(`reports ${name} as an error`, async () => {
      const { path, remove } = temporaryFolder();
      try {
        make(path);
        await assert.rejects(readSources(path), (error: Error) => {
          assert.ok(error instanceof UserError, String(error));
          assert.ok(error.message.includes(join(path, 'a.yaml')));
          return true;
        });
      } finally {
        remove();
      }
    });
  }

  test('reports a missing folder by name', async () => {
    await assert.rejects(readSources('/nowhere/at/all'), {
      message: 'cannot read the folder /nowhere/at/all: it does not exist',
    });
  });
});
