// Templates of new instances.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readSources } from '../../engine/definition/sources.ts';
import { type Organization, onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { assertRefused, crm, project } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const resources = ['accounts', 'cases', 'contacts', 'leads', 'opportunities'];
const template = join(project, 'templates/integration/resources');

describe('crm new --template', () => {
  const temporary = temporaryFolder();
  after(() => temporary.remove());

  test('adds the files of the template, which are valid', async () => {
    const options = { cwd: temporary.path };
    const created = await crm(['new', 'my-crm', '--template', 'integration'], {}, options);
    assert.equal(created.code, 0, created.stderr);
    const folder = join(temporary.path, 'my-crm');
    for (const name of resources)
      assert.ok(
        readFileSync(join(folder, `resources/${name}.yaml`), 'utf8').endsWith(
          readFileSync(join(template, `${name}.yaml`), 'utf8'),
        ),
      );
    assert.ok(existsSync(join(folder, 'resources/.schemas/leads.json')));
    const checked = await crm(['check'], {}, { cwd: folder });
    assert.equal(checked.code, 0, checked.stderr);
  });

  test('without a template, an instance has a migration for all changes to the shipped resources', async () => {
    const options = { cwd: temporary.path };
    const created = await crm(['new', 'plain', '--json'], {}, options);
    const files = (created.json.files as readonly string[]).filter((file) => /Migration/.test(file));
    assert.match(
      files.join(),
      /^migrations\/Migration\d+_initial\.ts,migrations\/Migration\d+_initial\.json$/,
    );
    const checked = await crm(['check'], {}, { cwd: join(temporary.path, 'plain') });
    assert.equal(checked.code, 0, checked.stderr);
  });

  test('writes nothing to a folder that is not empty', async () => {
    mkdirSync(join(temporary.path, 'used'));
    writeFileSync(join(temporary.path, 'used/notes.txt'), '');
    const refused = await crm(['new', 'used'], {}, { cwd: temporary.path });
    assertRefused(refused, 'used is not empty. Choose a new folder.');
    assert.deepEqual(readdirSync(join(temporary.path, 'used')), ['notes.txt']);
  });

  test('the package is named after the folder and depends on the chosen engine', async () => {
    for (const [folder, name] of [
      ['_ACME  CRM_', 'acme-crm'],
      ['日本', 'my-crm'],
    ] as const) {
      const args = ['new', folder, '--engine', '^1.2.3'];
      const { code, stdout } = await crm(args, {}, { cwd: temporary.path });
      assert.deepEqual([code, stdout.includes('--engine')], [0, false]);
      const manifest = JSON.parse(readFileSync(join(temporary.path, folder, 'package.json'), 'utf8'));
      assert.deepEqual([manifest.name, manifest.dependencies], [name, { 'crm-engine': '^1.2.3' }]);
    }
  });

  test('rejects unknown templates', async () => {
    const { code, stderr } = await crm(['new', 'other', '--template', 'none'], {}, { cwd: temporary.path });
    assert.notEqual(code, 0);
    assert.match(stderr, /Allowed choices are integration/);
  });
});

describe('crm new module', () => {
  const { path, remove } = temporaryFolder();
  const config = "# Our settings.\nmodules: ['./own.js']\n";
  before(() => {
    writeFileSync(join(path, 'config.yaml'), config);
    const module =
      "import { defineModule } from 'crm-engine';\nexport default defineModule({ name: 'own' });\n";
    writeFileSync(join(path, 'own.js'), module);
    writeFileSync(join(path, 'package.json'), '{ "type": "module", "dependencies": { "crm-engine": "*" } }');
    for (const folder of ['resources', 'migrations', 'docs']) mkdirSync(join(path, folder));
    writeFileSync(join(path, 'docs/described.md'), 'Ours.\n');
  });
  after(remove);

  const used = (name: string) =>
    `"${name}" is already the name of a module or a setting. Choose another name.`;
  for (const [name, problem] of [
    ['Convert', '"Convert" must be lowercase words separated by "-", with at most 30 characters.'],
    ['retention', used('retention')],
    ['own', used('own')],
    ['described', `${join(path, 'docs/described.md')} already exists. Choose another name.`],
  ] as const)
    test(`${name} is refused, and nothing is written`, async () => {
      assertRefused(await crm(['new', 'module', name], {}, { cwd: path }), problem);
      assert.ok(!existsSync(join(path, 'modules')));
      assert.deepEqual(readdirSync(join(path, 'docs')), ['described.md']);
      assert.equal(readFileSync(join(path, 'config.yaml'), 'utf8'), config);
      assert.equal(readFileSync(join(path, 'docs/described.md'), 'utf8'), 'Ours.\n');
    });
});

onBothDrivers(
  'the template "integration"',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const call = (request: string, body?: unknown) =>
      instance().call(request.replace(' ', ' /api/v1/'), {
        key: acme.key,
        ...(body !== undefined && { body }),
      });

    for (const name of resources)
      test(`${name} can be found, created and updated by external_id`, async () => {
        const records = [{ external_id: 'x-1' }, { external_id: 'x-2' }];
        const upsert = async () => {
          const { json } = await call(`POST ${name}/batch`, { records, match: ['external_id'] });
          return (json.results as { status: number; id: number }[]).map(({ status, id }) => ({ status, id }));
        };
        const created = await upsert();
        assert.deepEqual(
          created.map(({ status }) => status),
          [201, 201],
        );
        assert.deepEqual(
          await upsert(),
          created.map(({ id }) => ({ status: 200, id })),
        );
        const found = (await call(`GET ${name}?external_id=x-2&fields=external_id`)).json.data;
        assert.deepEqual(found, [{ id: created[1]?.id, external_id: 'x-2' }]);
        assert.equal((await call(`POST ${name}`, { external_id: 'x-1' })).status, 409);
        for (let count = 0; count < 2; count++) assert.equal((await call(`POST ${name}`, {})).status, 201);
      });
  },
  {
    sources: await sourcesWith(
      ...(await readSources(template)).map((source) => ({
        ...source,
        file: `resources/own-${source.file.split('/').at(-1)}`,
      })),
    ),
  },
);
