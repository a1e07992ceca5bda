// The packed package: JavaScript that runs within node_modules, with what package.json lets it install.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { sourceSql } from '../../plugins/ledger/epoch.ts';
import { crm, migratedStorage, onDatabase, project, serve } from '../support/process.ts';

describe('the packed package', { concurrency: 1 }, () => {
  // Where packages are found, and Node strips no types.
  const cache = join(project, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'packed-'));
  before(() => execFileSync(process.execPath, [join(project, 'bin/build.js'), folder]));
  after(() => rmSync(folder, { recursive: true, force: true }));

  test('serves, with explorer and screens, a database that the source has migrated', async () => {
    const storage = await migratedStorage('postgresql');
    const service = await serve(storage.environment, { program: [join(folder, 'app/main.js')] });
    for (const path of ['/docs', '/docs/js/scalar.js', '/docs/openapi.json', '/setup/assets/pico.css']) {
      assert.equal((await service.call(`GET ${path}`)).status, 200, path);
    }
    const list = await service.call('GET /api/v1/leads', { key: String(service.printed.key) });
    assert.equal(list.status, 200);
    service.signal('SIGTERM');
    const { code, stderr } = await service.ended;
    assert.deepEqual([code, stderr], [0, '']);
    await storage.remove();
  });

  test('brings an empty cluster along, and no two databases made of it are taken for one', async () => {
    const { createCluster } = (await import(
      pathToFileURL(join(folder, 'engine/database/cluster.js')).href
    )) as typeof import('../../engine/database/cluster.ts');
    const identities = async (name: string) => {
      mkdirSync(join(folder, name));
      await createCluster(join(folder, name, 'pgdata'));
      return onDatabase({ DATA_DIR: join(folder, name) }, (query) =>
        query(
          `select system_identifier::text as cluster, ${sourceSql.replaceAll(`"crm_ledger_epochs"`, 'pg_class')} as source from pg_control_system()`,
        ),
      );
    };
    const [[one], [two]] = [await identities('one'), await identities('two')];
    assert.equal(one?.[0], two?.[0]);
    assert.notEqual(one?.[1], two?.[1]);
  });

  test('writes clients', async () => {
    const output = join(folder, 'written');
    const { code, stderr } = await crm(
      ['client', '--output', output],
      {},
      { program: [join(folder, 'app/main.js')] },
    );
    assert.deepEqual([code, stderr], [0, '']);
    const text = (folder: string, name: string) => readFileSync(join(folder, name), 'utf8');
    for (const name of ['README.md', 'src/client.ts', 'src/resources.ts'])
      assert.ok(text(output, name) === text(join(project, 'client'), name), name);
  });

  test('imports what is installed with it', () => {
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
      dependencies: Readonly<Record<string, string>>;
    };
    const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.js'),
    );
    const missing = new Set<string>();
    for (const name of sources.filter((each) => !/assets|rendered/.test(each))) {
      const text = readFileSync(join(folder, name), 'utf8');
      for (const [, imported = ''] of text.matchAll(/(?:^import |\bfrom |\bimport\()'([\w@.:/-]+)'/gm)) {
        const [scope = '', second] = imported.split('/');
        const wanted = scope.startsWith('@') ? `${scope}/${second}` : scope;
        const isBuiltin = imported.startsWith('node:') || builtinModules.includes(imported);
        if (!imported.startsWith('.') && !isBuiltin && !(wanted in dependencies)) missing.add(wanted);
      }
    }
    // What it renders is in the package.
    assert.deepEqual([...missing], ['@scalar/fastify-api-reference']);
  });
});
