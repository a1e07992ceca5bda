// Names in YAML that could collide with names that the engine generates. A file with such a name either works
// or is rejected with a location.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { YamlError } from '../../engine/yaml/load.ts';
import { startInstance } from '../support/instance.ts';

const head = [
  'fields:',
  '  id: { type: int64, read_only: true, set: id }',
  '  organization_id: { type: int64, read_only: true, set: organization }',
];
const file = (name: string, ...lines: string[]) => ({
  file: `${name}.yaml`,
  text: [...head, ...lines, ''].join('\n'),
});
const text = (name: string) => `  "${name}": { type: string }`;
const link = (name: string, to: string) => [
  `  ${name}: { type: reference, to: ${to}, nullable: true }`,
  `  ${name}_shown: { type: joined, through: ${name}, show: [label] }`,
];
const long = (letter: string) => `${'long_name_that_is_very_long_'.padEnd(39, 'x')}${letter}`;

/**
 * Resource files, keyed by the tested name. A record of the last file's resource is stored and read back,
 * linked to a record of the first file's resource.
 */
const cases: Readonly<Record<string, readonly { file: string; text: string }[]>> = {
  'a field "organization"': [
    file('things', text('label'), text('organization'), ...link('parent', 'things')),
  ],
  'a field named like a reference and "_link"': [
    file('things', text('label'), ...link('parent', 'things'), text('parent_link')),
  ],
  'the same before the reference': [
    file('things', text('label'), text('parent_link'), ...link('parent', 'things')),
  ],
  'fields named like the aliases in SQL': [
    file(
      'things',
      ...['label', 'r', 't', 'k', 'written', 'via_parent'].map(text),
      ...link('parent', 'things'),
    ),
  ],
  ...Object.fromEntries(
    ['written', 'r', 't', 'k', 'user', 'select', 'pg_class', 'organizations'].map((name) => [
      `a resource "${name}" that another one shows`,
      [file(name, text('label')), file('zz_others', text('label'), ...link('parent', name))],
    ]),
  ),
  'a resource "written" that refers to itself': [
    file('written', text('label'), ...link('parent', 'written')),
  ],
  'words of SQL as fields': [
    file(
      'things',
      ...['label', 'select', 'order', 'user', 'null', 'default', 'limit'].map(text),
      ...link('parent', 'things'),
    ),
  ],
  'a field "prototype"': [file('things', text('label'), text('prototype'), ...link('parent', 'things'))],
  'words of JavaScript as fields': [
    file(
      'things',
      ...['label', 'tostring', 'then', 'length', 'name', 'get'].map(text),
      ...link('parent', 'things'),
    ),
  ],
  'names of 40 letters, alike in the first 39': [
    file(
      long('r'),
      text('label'),
      text(long('a')),
      text(long('b')),
      ...link('parent', long('r')),
      ...['c', 'd'].map(
        (letter) => `  ${long(letter)}: { type: reference, to: ${long('r')}, nullable: true }`,
      ),
      `filters: [${long('a')}, ${long('b')}]`,
    ),
  ],
};

describe('names', () => {
  for (const [what, sources] of Object.entries(cases)) {
    test(`${what}: works or is rejected with its location`, async () => {
      try {
        checkSources(sources);
      } catch (error) {
        assert.ok(error instanceof YamlError);
        assert.match(error.message, /^\w+\.yaml:\d+:\d+ {2}./);
        return;
      }
      const instance = await startInstance('postgresql', { sources });
      try {
        const { key, id: organization } = await instance.organization('acme');
        const foreign = await instance.organization('foreign');
        const [first, last = first] = instance.resources;
        assert.ok(first && last);
        const write = async (request: string, body: unknown, as = key) => {
          const answer = await instance.call(request, { key: as, body });
          assert.ok(answer.status < 300, answer.text);
          return answer.json;
        };
        const texts = last.definition.fields.filter(({ typeName }) => typeName === 'string');
        const values = Object.fromEntries(texts.map(({ name }) => [name, `value of ${name}`]));
        const { id: target } = await write(`POST /api/v1/${first.name}`, { label: 'Target' });
        const body = { ...values, parent: target };
        const created = await write(`POST /api/v1/${last.name}`, body);
        const path = `/api/v1/${last.name}/${created.id}`;
        const expected = {
          ...created,
          ...body,
          organization_id: Number(organization),
          parent_shown: 'Target',
        };
        const read = [
          created,
          await write(`PUT ${path}`, body),
          (await instance.call(`GET ${path}`, { key })).json,
        ];
        for (const record of read) assert.deepEqual(record, expected);
        for (const query of ['', '?page=6', ...texts.map(({ name }) => `?sort=${name}&dir=desc`)]) {
          const list = await instance.call(`GET /api/v1/${last.name}${query}`, { key });
          assert.equal(list.status, 200, list.text);
        }
        // The database also rejects links to other organizations, regardless of the names.
        const { id: theirs } = await write(`POST /api/v1/${first.name}`, { label: 'Theirs' }, foreign.key);
        const crossing = await instance.call(`POST /api/v1/${last.name}`, { key, body: { parent: theirs } });
        assert.equal(crossing.status, 400, crossing.text);
      } finally {
        await instance.close();
      }
    });
  }
});
