// Definitions that are edited while they are served: saved edits are served or reported, and no request
// fails.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import '../../app/migration-imports.ts';
import { loadConfig } from '../../app/config.ts';
import { type DevServer, startDevServer } from '../../app/dev/dev-server.ts';
import { createDemo } from '../../plugins/operations/demo/demo.ts';
import { drivers, send } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { migratedStorage, type Storage, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

/** A module that sets a field of new leads to a value from a file that it imports. */
const moduleFiles = {
  'package.json': '{ "type": "module" }',
  'config.yaml': 'modules: [./modules/acme.ts]\n',
  'modules/acme.ts': `import { defineModule } from 'crm-engine';
import { source } from './source.ts';
export default defineModule({
  name: 'acme',
  hooks: { leads: { beforeWrite: ({ input }) => input && { ...input, source } } },
} as never);
`,
  'modules/source.ts': "export const source = 'first';\n",
};

// The tutorial covers the same steps on the embedded database (test/docs/tutorial.test.ts).
for (const driver of drivers.slice(-1)) {
  describe(`${driver}: definitions that are edited`, { concurrency: 1 }, () => {
    const isEmbedded = driver === 'embedded';
    const told: string[] = [];
    const responses: string[] = [];
    let storage: Storage;
    let files: OwnFiles;
    let service: DevServer;
    let key: string;
    let isOver = false;
    let load: Promise<unknown>;
    const call = (request: string, body?: unknown) =>
      send(service.url, request.replace(' ', ' /api/v1/'), { key, body });
    const tells = (text: string) => until(() => told.join('\n').includes(text), text);
    /** Waits until an edit is served. On PostgreSQL, it must be confirmed first. */
    const live = async (text: string) => {
      if (!isEmbedded) {
        await tells('Press y');
        service.press('y');
      }
      await tells('Serving the saved definitions');
      assert.ok(told.at(-1)?.includes(text), told.join('\n'));
      told.length = 0;
    };

    before(async () => {
      storage = await migratedStorage(driver);
      files = ownFiles();
      const none = join(files.path, 'none');
      mkdirSync(join(files.path, 'modules'));
      for (const [name, text] of Object.entries(moduleFiles)) writeFileSync(join(files.path, name), text);
      const config = await loadConfig({
        ...patient,
        ...storage.environment,
        ...files.environment,
        CRM_CONFIG: join(files.path, 'config.yaml'),
        PORT: '0',
        SAMPLES_DIR: none,
      });
      service = await startDevServer(config, (text) => told.push(text));
      const demo = await createDemo(service.database, config, service.resources);
      key = String(demo?.key);
      const work = async () => {
        while (!isOver) {
          const created = await call('POST leads', { last_name: 'Load', company: 'Load' });
          const read = await call(`GET leads/${created.json.id}`);
          responses.push(`${created.status} ${read.status}`);
          await pause(2);
        }
      };
      load = Promise.all([work(), work()]);
    });
    after(async () => {
      isOver = true;
      await load;
      await service.close();
      files.remove();
      await storage.remove();
    });

    test('a field is live', async () => {
      files.edit('leads', '  email: {', '  fax: { type: string, description: Fax number. }\n  email: {');
      await live('added leads.fax');
      const created = await call('POST leads', { last_name: 'F', company: 'F', fax: '1' });
      assert.equal(created.json.fax, '1', created.text);
    });

    test('a file with a mistake is reported with its location, and what was served stays', async () => {
      const right = files.text('leads');
      files.edit('leads', 'fax: { type: string', 'fax: { type: strin');
      await tells('unknown type "strin". Did you mean "string"?\nThe previous definitions are still served.');
      assert.equal((await call('GET leads?page_size=1')).status, 200);
      files.add('leads', right);
      await tells('The files are valid, and their definitions are already served.');
      told.length = 0;
    });

    test('what does not say what happens to its values is reported, and not served', async () => {
      const right = files.text('leads');
      files.edit('leads', / {2}fax: .*\n/, '');
      await tells('"fax" was removed, so the values of leads.fax would be dropped. Choose one:');
      files.add('leads', right);
      told.length = 0;
    });

    test('files that git is still changing are not read', async () => {
      const right = files.text('leads');
      const lock = join(files.path, '.git/index.lock');
      mkdirSync(dirname(lock));
      writeFileSync(lock, '');
      files.edit('leads', 'fax: { type: string', 'fax: {');
      const enough = responses.length + 200;
      // After ten seconds, files are read although they are still changing.
      const latest = performance.now() + 5000;
      await until(() => responses.length > enough || performance.now() > latest, 'time to process the edit');
      files.add('leads', right.replace('Fax number.', 'The fax number.'));
      rmSync(dirname(lock), { recursive: true });
      await tells('Serving the saved definitions');
      assert.equal(told.length, 1, told.join('\n'));
      told.length = 0;
    });

    test('files that change while their plan is made are read again', async () => {
      const schemas = join(files.path, 'resources/.schemas');
      // The schemas are written after the definitions have been read and before the plan is made.
      const watcher = watch(schemas, () => {
        watcher.close();
        files.edit('leads', 'Former fax number.', 'Fax number.');
      });
      files.edit('leads', 'The fax number.', 'Former fax number.');
      await tells('Serving the saved definitions');
      assert.equal(told.length, 1, told.join('\n'));
      assert.match((await send(service.url, 'GET /docs/openapi.json')).text, /"Fax number\."/);
      told.length = 0;
    });

    test('a new name waits for a key: any other leaves it, y serves it with its values', async () => {
      files.edit('leads', 'fax: { type: string', 'telefax: { type: string, renamed_from: fax');
      await tells('Press y');
      service.press('n');
      await tells('Canceled.');
      const created = await call('POST leads', { last_name: 'G', company: 'G', fax: '2' });
      assert.equal(created.json.fax, '2', created.text);
      told.length = 0;
      writeFileSync(join(files.path, 'resources/leads.yaml'), `${files.text('leads')}# again\n`);
      await tells('Press y');
      service.press('y');
      await tells('Serving the saved definitions');
      assert.equal((await call(`GET leads/${created.json.id}`)).json.telefax, '2');
      told.length = 0;
    });

    test('an edit whose migration fails leaves no migration file, and the previous definitions are still served', async () => {
      const right = files.text('leads');
      const migrations = files.migrations();
      files.edit('leads', 'company: { type: string,', 'company: { type: string, unique: true,');
      await tells('Press y');
      service.press('y');
      await tells('Nothing was migrated.');
      assert.match(
        told.join('\n'),
        /Nothing was migrated\..*\nThe previous definitions are still served\.$/m,
      );
      assert.deepEqual(files.migrations(), migrations);
      files.add('leads', right);
      await tells('The files are valid, and their definitions are already served.');
      told.length = 0;
    });

    test('a module is live with the files that it imports, and one with a mistake is reported', async () => {
      const source = async () => (await call('POST leads', { last_name: 'H' })).json.source;
      assert.equal(await source(), 'first');
      const helper = join(files.path, 'modules/source.ts');
      writeFileSync(helper, "export const source = 'second';\n");
      await tells('Serving the saved definitions');
      assert.equal(await source(), 'second');
      told.length = 0;
      writeFileSync(helper, 'export const source = ;\n');
      await tells('modules/source.ts:1:23: Expression expected\nThe previous definitions are still served.');
      assert.equal(await source(), 'second');
      writeFileSync(helper, "export const source = 'third';\n");
      await tells('Serving the saved definitions');
      assert.equal(await source(), 'third');
      told.length = 0;
    });

    test('a resource is live, and in the description', async () => {
      files.add('visits', 'singular: visit\ncommon: all\nfields:\n  place: { type: string }\n');
      await live('added visits');
      assert.equal((await call('POST visits', { place: 'Here' })).status, 201);
      assert.match((await send(service.url, 'GET /docs/openapi.json')).text, /\/api\/v1\/visits/);
    });

    test('no request failed in the meantime, and each edit has its migration', async () => {
      await until(() => responses.length > 20, 'enough requests');
      assert.deepEqual([...new Set(responses)], ['201 200']);
      const made = files.migrations().filter((name) => /_(added|renamed)_.*ts$/.test(name));
      assert.deepEqual(
        made.map((name) => name.replace(/^Migration\d+_/, '')),
        ['added_leads_fax.ts', 'renamed_leads_fax.ts', 'added_visits.ts'],
      );
      for (const name of made)
        assert.ok(
          readFileSync(join(files.path, 'migrations', name), 'utf8').includes('export const changes'),
        );
    });
  });
}
