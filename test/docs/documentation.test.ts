import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { buildProgram } from '../../app/commands/program.ts';
import { variables } from '../../app/variables.ts';
import { effectiveVariables } from '../../engine/config/index.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { resourceSchema } from '../../engine/definition/sources.ts';
import { errorCodes } from '../../engine/errors.ts';
import { fieldTypes } from '../../engine/fields/field-types.ts';
import { channels } from '../../webhooks/channels/channels.ts';
import settingsSchema from '../../webhooks/settings/settings.schema.json' with { type: 'json' };
import { sourcesWith } from '../support/sources.ts';

const root = join(import.meta.dirname, '../..');
const read = (file: string) => readFileSync(join(root, file), 'utf8');
const pages = [
  'README.md',
  'SECURITY.md',
  ...readdirSync(join(root, 'docs'))
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`),
];

/** Asserts that every name occurs in a page as code. */
function mentions(page: string, names: readonly string[]): void {
  const text = read(page);
  for (const name of names)
    test(`${page} explains ${name}`, () => assert.ok(text.includes(`\`${name}`), name));
}

describe('complete pages', async () => {
  mentions('docs/maintainers.md', Object.keys(fieldTypes));
  mentions('docs/maintainers.md', Object.keys(resourceSchema.properties));
  mentions('docs/maintainers.md', Object.keys(resourceSchema.$defs.field.properties));
  mentions(
    'docs/administrators.md',
    Object.values(variables).map(({ name }) => name),
  );
  mentions('docs/reference.md', Object.keys(errorCodes));
  mentions('docs/partners.md', Object.keys(settingsSchema.properties));
  mentions('docs/partners.md', Object.keys(settingsSchema.properties.partners.properties));
  mentions('docs/partners.md', Object.keys(channels));

  const program = await buildProgram();
  const whole = program.commands.flatMap((command) =>
    command.commands.length === 0
      ? [command.name()]
      : command.commands.map((below) => `${command.name()} ${below.name()}`),
  );
  assert.ok(whole.length > 8);
  mentions('docs/administrators.md', whole);
});

/** Returns the valid link fragments for a page: its headings, as GitHub names them, and its anchors. */
const anchors = (text: string): string[] => [
  ...[...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  ),
  ...[...text.matchAll(/<a id="([^"]+)"/g)].map(([, id = '']) => id),
];

describe('correct pages', () => {
  test('the page of error codes matches the source', () => {
    const rows = [
      ...read('docs/reference.md').matchAll(/^\| <a id="\w+"><\/a>`(\w+)` *\| (\d{3}) *\| (.*?) *\|$/gm),
    ];
    assert.deepEqual(Object.fromEntries(rows.map(([, code, , meaning]) => [code, meaning])), errorCodes);
    for (const [row, code] of rows) assert.ok(row.includes(`id="${code}"`), 'a code links to itself');
  });

  test('the page for administrators has the default of each variable', () => {
    const rows = [...read('docs/administrators.md').matchAll(/^\| `([A-Z_]+)` *\| (.*?) *\|/gm)];
    const documented = new Map(rows.map(([, name, text]) => [name, text]));
    const folders = ['DATA_DIR', 'CRM_CONFIG', 'SAMPLES_DIR'];
    const defaults = effectiveVariables(variables, {}).filter(
      ({ name }) => documented.has(name) && !folders.includes(name),
    );
    assert.ok(defaults.length > 30);
    for (const { name, value } of defaults) {
      const text = documented.get(name) ?? '';
      if (value === 'not set') assert.doesNotMatch(text, /^`[^`]*`$/, name);
      else assert.equal(text, `\`${value}\``, name);
    }
  });

  test("the README's resource is a valid definition", async () => {
    const yaml = /```yaml\n([\s\S]*?)```/.exec(read('README.md'))?.[1] ?? '';
    const definitions = checkSources(await sourcesWith({ file: 'projects.yaml', text: yaml }));
    assert.ok(definitions.some((definition) => definition.name === 'projects'));
    assert.ok(parse(yaml).fields.stage);
  });

  for (const page of pages) {
    test(`every link in ${page} has a target`, () => {
      for (const [, target = '', anchor] of read(page).matchAll(/\]\(([^)#]*)(?:#([^)]+))?\)/g)) {
        if (/^https?:/.test(target)) continue;
        const file = target === '' ? page : join(page, '..', target);
        assert.ok(existsSync(join(root, file)), target);
        if (anchor !== undefined) assert.ok(anchors(read(file)).includes(anchor), `${target}#${anchor}`);
      }
    });
  }

  for (const page of pages) {
    test(`every test named in ${page} exists`, () => {
      for (const [path] of read(page).matchAll(/test\/[\w./-]+\.ts/g)) {
        assert.ok(existsSync(join(root, path)), path);
      }
    });
  }

  test('every script named in the README exists', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    for (const [, script = ''] of read('README.md').matchAll(/npm run (?:-s )?([a-z:]+)/g)) {
      assert.ok(scripts[script], script);
    }
  });
});
