// The packed package: JavaScript that runs inside node_modules, with the dependencies in package.json.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { builtinModules } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { sourceSql } from '../../plugins/change-log/epoch.ts';
import { inherited } from '../support/command-process.ts';
import { temporaryFolder } from '../support/instance.ts';
import {
  crm,
  crmJson,
  type Environment,
  emptyStorage,
  migratedStorage,
  type Options,
  onDatabase,
  project,
  type Service,
  serve,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

describe('the packed package', { concurrency: 1 }, () => {
  // Inside node_modules, Node finds packages but does not strip types.
  const cache = join(project, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const home = mkdtempSync(join(cache, 'packed-'));
  const folder = join(home, 'package/dist');
  before(() => execFileSync(process.execPath, [join(project, 'bin/build.js'), folder]));
  after(() => rmSync(home, { recursive: true, force: true }));

  test('serves the API, explorer and admin UI on a database migrated by the source', async () => {
    const storage = await migratedStorage('postgresql');
    const service = await serve(
      { ...patient, ...storage.environment },
      { program: [join(folder, 'app/main.js')] },
    );
    for (const path of [
      '/docs/leads',
      '/docs/assets/any/explorer.js',
      '/docs/openapi.json',
      '/setup/assets/any/setup.css',
    ]) {
      assert.equal((await service.call(`GET ${path}`)).status, 200, path);
    }
    const list = await service.call('GET /api/v1/leads', { key: String(service.printed.key) });
    assert.equal(list.status, 200);
    service.signal('SIGTERM');
    const { code, stderr } = await service.ended;
    assert.deepEqual([code, stderr], [0, '']);
    await storage.remove();
  });

  test("serves from a read-only folder as another user, and passes the image's health check", async () => {
    const data = mkdtempSync(join(tmpdir(), 'crm-packed-'));
    const isRoot = process.getuid?.() === 0;
    const otherUser = isRoot ? { uid: 65534, gid: 65534 } : {};
    if (isRoot) chownSync(data, 65534, 65534);
    execFileSync('chmod', ['-R', 'a-w,a+rX', home]);
    const env = {
      ...inherited(),
      ...patient,
      PORT: '0',
      DATA_DIR: data,
      ADMIN_PORT: '0',
      NODE_COMPILE_CACHE: join(home, '.cache'),
    };
    const [, check = ''] =
      /HEALTHCHECK[\s\S]*?CMD \["node", "-e", "(.*)"\]/.exec(
        readFileSync(join(project, 'Dockerfile'), 'utf8'),
      ) ?? [];
    // No process uses port 1.
    let port = '1';
    const isHealthy = () =>
      spawnSync(process.execPath, ['-e', check], { env: { ADMIN_PORT: port } }).status === 0;
    try {
      assert.equal(isHealthy(), false);
      for (const round of ['first start', 'second start']) {
        const options = { env, ...otherUser, cwd: folder };
        const child = spawn(process.execPath, [join(folder, 'app/main.js'), 'serve', '--json'], options);
        const ended = once(child, 'exit');
        const errors = text(child.stderr);
        const [printed] = (await Promise.race([once(child.stdout, 'data'), ended])) as [unknown];
        port = new URL((JSON.parse(String(printed)) as { admin: string }).admin).port;
        // On a busy machine, a database probe can time out.
        await until(isHealthy, round);
        child.kill('SIGTERM');
        assert.deepEqual([(await ended)[0], await errors], [0, ''], round);
      }
      assert.equal(isHealthy(), false);
      assert.ok(!existsSync(join(home, '.cache')));
    } finally {
      execFileSync('chmod', ['-R', 'u+w', home]);
      rmSync(data, { recursive: true, force: true });
    }
  });

  test('includes an empty cluster, and databases created from it have distinct identities', async () => {
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

  test('generates clients', async () => {
    const output = join(folder, 'written');
    const { code, stderr } = await crm(
      ['client', '--output', output],
      {},
      { program: [join(folder, 'app/main.js')] },
    );
    assert.deepEqual([code, stderr], [0, '']);
    const text = (folder: string, name: string) => readFileSync(join(folder, name), 'utf8');
    for (const name of ['README.md', 'src/client.ts', 'src/resources.generated.ts'])
      assert.ok(text(output, name) === text(join(project, 'client'), name), name);
  });

  /**
   * Packs the package and installs the tarball as npm does, with this project's dependencies.
   * @returns the tarball
   */
  const install = (instance: string): string => {
    for (const name of ['package.json', 'bin/crm.js', 'bin/index.js'])
      cpSync(join(project, name), join(home, 'package', name));
    const pack = ['pack', '--ignore-scripts', '--silent', '--pack-destination', home];
    const tarball = execFileSync('npm', pack, { cwd: join(home, 'package'), encoding: 'utf8' }).trim();
    const to = join(instance, 'node_modules/crm-engine');
    rmSync(to, { recursive: true, force: true });
    mkdirSync(to, { recursive: true });
    execFileSync('tar', ['-xzf', join(home, tarball), '-C', to, '--strip-components=1']);
    const resolved = `file:${relative(instance, join(home, tarball))}`;
    writeFileSync(
      join(instance, 'node_modules/.package-lock.json'),
      JSON.stringify({ packages: { 'node_modules/crm-engine': { resolved } } }),
    );
    return join(home, tarball);
  };

  /** Replaces a string in one of the package's files. */
  const edit = (name: string, from: string, to: string): void => {
    const text = readFileSync(join(folder, name), 'utf8');
    assert.ok(text.includes(from), `${from} in ${name}`);
    writeFileSync(join(folder, name), text.replace(from, to));
  };

  /**
   * Starts the service with `npm start`, sends SIGTERM to npm, and checks that the service stops before npm.
   * @returns the demo key
   */
  const assertStopsByNpm = async (instance: string, environment: Environment): Promise<string> => {
    mkdirSync(join(instance, 'node_modules/.bin'));
    symlinkSync('../crm-engine/bin/crm.js', join(instance, 'node_modules/.bin/crm'));
    // Some shells exec the last command instead of forking. Here, it is never the last command.
    const shell = join(instance, 'node_modules/.bin/plain-shell');
    writeFileSync(shell, '#!/bin/sh\nexec /bin/sh -c "$2\n:"\n', { mode: 0o755 });
    const npm = spawn('npm', ['--silent', '--script-shell', shell, 'start', '--', '--json'], {
      cwd: instance,
      env: { ...inherited(), ...environment, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    const ended = once(npm, 'exit');
    try {
      const [printed] = (await once(npm.stdout, 'data')) as [Buffer];
      const { url, key } = JSON.parse(printed.toString()) as { url: string; key: string };
      npm.kill('SIGTERM');
      assert.deepEqual(await ended, [0, null]);
      await assert.rejects(fetch(url), 'the service has stopped, too');
      return key;
    } finally {
      // Kill the rest of the process group.
      try {
        process.kill(-(npm.pid ?? assert.fail()), 'SIGKILL');
      } catch {}
    }
  };

  /** Checks that a generated module passes its test, and that the modules in docs/modules.md compile with strict types. */
  const assertModulesWork = async (instance: string, options: Options): Promise<void> => {
    await crmJson(['new', 'module', 'greeter'], {}, options);
    const config = readFileSync(join(instance, 'config.yaml'), 'utf8');
    assert.match(config, /^modules: \[\.\/modules\/greeter\.ts\]$/m);
    assert.match(config, /^#/m, 'comments are kept');
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const tested = spawnSync('npm', ['test', '--silent'], { cwd: instance, env, encoding: 'utf8' });
    assert.deepEqual([tested.status, tested.stderr], [0, ''], tested.stdout);
    assert.match(tested.stdout, /pass 1$/m);
    const page = readFileSync(join(project, 'docs/modules.md'), 'utf8');
    for (const [, path = '', text = ''] of page.matchAll(/^```ts\n\/\/ (\S+)\n([\s\S]*?)^```$/gm))
      writeFileSync(join(instance, path), text);
    const compile = () =>
      spawnSync(process.execPath, [join(project, 'node_modules/typescript/bin/tsc'), '-p', instance], {
        encoding: 'utf8',
      }).stdout;
    assert.equal(compile(), '');
    const wrong = `import { defineModule } from 'crm-engine';
export default defineModule({ name: 'a', register: (_app, { databse }) => databse });\n`;
    writeFileSync(join(instance, 'modules/wrong.ts'), wrong);
    assert.match(compile(), /modules\/wrong\.ts\(2,\d+\): error TS2339: Property 'databse'/);
    rmSync(join(instance, 'modules/wrong.ts'));
    const examples = readdirSync(join(project, 'examples')).filter((name) => name.endsWith('.ts'));
    for (const example of examples)
      cpSync(join(project, 'examples', example), join(instance, 'modules', example));
    assert.equal(compile(), '');
    // The types of the instance's records. This instance does not have the fields that one of the examples needs.
    rmSync(join(instance, 'modules/convert-lead.ts'));
    await crmJson(['types', '--output', 'modules/crm-types.d.ts'], {}, options);
    assert.equal(compile(), '');
    const misnamed = `import { defineModule } from 'crm-engine';
export default defineModule({ name: 'a', hooks: { leads: { beforeWrite: ({ input }) => ({ fax: input?.fxa }) } } });\n`;
    writeFileSync(join(instance, 'modules/wrong.ts'), misnamed);
    assert.match(compile(), /modules\/wrong\.ts\(2,\d+\): error TS\d+: Property 'fxa' does not exist/);
    rmSync(join(instance, 'modules/wrong.ts'));
  };

  test('a new instance can be created, extended, and upgraded to the next version with its data', async () => {
    const temporary = temporaryFolder();
    symlinkSync(join(project, 'node_modules'), join(temporary.path, 'node_modules'));
    const instance = join(temporary.path, 'my-crm');
    const storage = await emptyStorage('postgresql');
    const environment = { ...patient, ...storage.environment, MIGRATE_ON_START: 'true' };
    const installed = join(instance, 'node_modules/crm-engine/dist/app/main.js');
    const options = { cwd: instance, program: [installed] };
    const stop = async ({ signal, ended }: Service) => {
      signal('SIGTERM');
      assert.deepEqual(((outcome) => [outcome.code, outcome.stderr])(await ended), [0, '']);
    };
    const first = join(temporary.path, 'first');
    const tarball = install(first);
    const bin = join(first, 'node_modules/crm-engine/bin/crm.js');
    const created = await crm(['new', './my-crm'], {}, { cwd: temporary.path, program: [bin] });
    const [, engine = ''] =
      /^Created \.\/my-crm with --engine file:(\S+)\. Next:\n/.exec(created.stdout) ?? [];
    assert.equal(resolve(instance, engine), tarball, created.stdout + created.stderr);
    renameSync(join(first, 'node_modules'), join(instance, 'node_modules'));
    const key = await assertStopsByNpm(instance, environment);

    let service = await serve(environment, options);
    const lead = { last_name: 'Lovelace', company: 'Analytical Engines' };
    const { id } = (await service.call('POST /api/v1/leads', { key, body: lead })).json;
    await stop(service);

    writeFileSync(
      join(instance, 'resources/leads.yaml'),
      'extends: leads\nfields:\n  fax: { type: string, description: Fax number. }\n',
    );
    await crmJson(['migrate', '--create', 'fax'], environment, options);
    service = await serve(environment, options);
    const patched = await service.call(`PATCH /api/v1/leads/${id}`, { key, body: { fax: '+49 30 1' } });
    assert.equal(patched.status, 200, patched.text);
    await stop(service);

    await assertModulesWork(instance, options);

    // The next version adds a column to a platform table, with a migration, and a field to leads, with a migration that
    // instances must not run.
    edit('package.json', '"version": "', '"version": "1.');
    edit(
      'plugins/api/usage/tables.js',
      'last_used_at: now,',
      'last_used_at: now, note: { ...textColumn, nullable: true },',
    );
    edit('resources/leads.yaml', 'fields:\n', 'fields:\n  region: { type: string, description: Region. }\n');
    const named = readFileSync(join(folder, 'migrations/Migration20261122201630_name_uses.json'), 'utf8');
    const { columns } = JSON.parse(named).tables.crm_name_uses;
    const note = { ...columns.resource, name: 'note', primary: false, nullable: true };
    const add = (name: string, table: string, column: object, sql: string) => {
      const patch = { tables: { [table]: { columns: column } } };
      writeFileSync(join(folder, `migrations/${name}.json`), JSON.stringify(patch));
      writeFileSync(
        join(folder, `migrations/${name}.js`),
        `import { Migration } from '@mikro-orm/migrations';
export class ${name} extends Migration { up() { this.addSql(${JSON.stringify(sql)}); } }`,
      );
    };
    add(
      'Migration20271201000000_note',
      'crm_name_uses',
      { note },
      'alter table "crm_name_uses" add "note" text collate "C"',
    );
    add('Migration20271201000001_region', 'leads', { region: { ...note, name: 'region' } }, 'nonsense');
    install(instance);

    // A finished command exits without waiting, for example, for idle connections to time out: long timers never fire.
    const timers = `const set = setTimeout;
      globalThis.setTimeout = (work, ms, ...more) => set(work, ms < 20_000 ? ms : 2 ** 31 - 1, ...more);`;
    const program = ['--import', `data:text/javascript,${encodeURIComponent(timers)}`, installed];
    const plan = await crm(['plan', '--json'], environment, { ...options, program });
    assert.deepEqual(plan.json.api, [{ kind: 'added', name: 'leads.region', text: 'is new', breaks: false }]);
    await crmJson(['migrate', '--create', 'upgrade'], environment, options);
    service = await serve(environment, options);
    const upgraded = await service.call(`GET /api/v1/leads/${id}`, { key });
    assert.partialDeepStrictEqual(upgraded.json, { ...lead, fax: '+49 30 1', region: '' });
    await stop(service);
    await storage.remove();
    temporary.remove();
  });

  test('imports only its declared dependencies', () => {
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
      dependencies: Readonly<Record<string, string>>;
    };
    const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.js'),
    );
    const missing = new Set<string>();
    for (const name of sources.filter((source) => !source.includes('assets'))) {
      const text = readFileSync(join(folder, name), 'utf8');
      for (const [, imported = ''] of text.matchAll(
        // A brace precedes an import in a JSDoc type, which loads nothing.
        /(?:^import |^(?:import|export|\}).* from |(?<!\{)\bimport\()'([\w@.:/-]+)'/gm,
      )) {
        const [scope = '', second] = imported.split('/');
        const dependency = scope.startsWith('@') ? `${scope}/${second}` : scope;
        const isBuiltin = imported.startsWith('node:') || builtinModules.includes(imported);
        if (!imported.startsWith('.') && !isBuiltin && !(dependency in dependencies)) missing.add(dependency);
      }
    }
    assert.deepEqual([...missing], []);
  });
});
