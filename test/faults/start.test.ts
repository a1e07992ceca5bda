// First and later starts, failing starts, and how a service stops.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { readConfig } from '../../app/config.ts';
import { listen, startAdminListener, urlOf } from '../../app/serve/listen.ts';
import { exampleResource, startupBanner } from '../../app/serve/startup-banner.ts';
import { variables } from '../../app/variables.ts';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { type Driver, drivers, postgresServer, send, temporaryFolder } from '../support/instance.ts';
import {
  apart,
  assertRefused,
  contents,
  crm,
  crmJson,
  crmTable,
  type Environment,
  emptyStorage,
  listening,
  migratedStorage,
  rows,
  type Storage,
  serve,
  start,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { sourcesWith } from '../support/sources.ts';
import { opened } from '../support/wire.ts';

const names = ['accounts', 'cases', 'contacts', 'leads', 'opportunities'];
const migrations = readdirSync(readConfig({}).migrations).filter((file) => /^Migration.*\.ts$/.test(file));

/** Provides each test in a suite with an empty or migrated database. */
function withStorage(driver: Driver, more: Environment = {}, make = emptyStorage) {
  const made: Storage[] = [];
  after(() => Promise.all(made.map((storage) => storage.remove())));
  return async () => {
    const storage = await make(driver);
    made.push(storage);
    return { ...storage, environment: { ...patient, ...storage.environment, ...more } };
  };
}

/** Stops a service as an administrator would. */
async function stop(service: ReturnType<typeof start>): Promise<void> {
  service.signal('SIGTERM');
  const { code, stderr } = await service.ended;
  // Transactions of other tests on the same server can take more than ten seconds.
  const expected = /^.*"msg":"the change feed is waiting for a long-running transaction.*\n/gm;
  assert.deepEqual([code, stderr.replaceAll(expected, '')], [0, '']);
}

for (const driver of drivers) {
  describe(`first and later starts (${driver})`, { concurrency: 1 }, () => {
    const migrating: Environment = driver === 'postgresql' ? { MIGRATE_ON_START: 'true' } : {};
    const storageOf = withStorage(driver, migrating);
    const withTables = withStorage(driver, {}, migratedStorage);

    test('--json: prints login and key once and creates five resources with more than one page; later starts keep everything', async () => {
      const { environment } = await storageOf();
      const first = await serve(environment);
      const { url, database, organization, email, password, key, ...more } = first.printed;
      assert.deepEqual([database, organization, more], [driver, 'demo', {}]);
      assert.match(String(url), /^http:\/\/127\.0\.0\.1:\d+$/);
      const login = await first.call('POST /auth/login', { body: { email, password } });
      assert.equal(login.status, 200, login.text);
      for (const name of names) {
        for (const [page, isFull] of [
          ['1', (length: number) => length === 20],
          ['2', (length: number) => length > 0],
        ] as const) {
          const answer = await first.call(`GET /api/v1/${name}?page=${page}`, { key: String(key) });
          assert.equal(answer.status, 200, answer.text);
          assert.ok(isFull((answer.json.data as unknown[]).length), `page ${page} of ${name}`);
        }
      }
      await stop(first);
      assert.match(first.stdout(), /^[^\n]+\n$/, 'one line');

      const data = await contents(environment);
      const later = await serve(environment);
      assert.deepEqual(Object.keys(later.printed), ['url', 'database']);
      assert.equal((await later.call('GET /docs/openapi.json')).status, 200);
      await stop(later);
      assert.deepEqual(await contents(environment), data);
      const last = await serve(environment);
      assert.equal((await last.call('GET /api/v1/leads', { key: String(key) })).status, 200);
      await last.kill();
    });

    test('text: prints the URL, login, key and a working curl command; later starts print only the URL', async () => {
      const { environment } = await withTables();
      const run = async () => {
        const service = start(['serve'], { ...environment, PORT: '0' });
        // The curl command comes last, in one write with the rest.
        await until(() => service.stdout().endsWith('\n'), 'listen');
        return service;
      };
      const first = await run();
      const text = first.stdout();
      const address = /^Serving (http:\/\/127\.0\.0\.1:\d+), explorer at \1\/docs, on .+\n/.exec(text)?.[1];
      assert.ok(address, text);
      const shown = (label: string) => new RegExp(`^ {2}${label} +(\\S+)$`, 'm').exec(text)?.[1] ?? '';
      const body = { email: shown('login'), password: shown('password') };
      assert.equal((await send(address, 'POST /auth/login', { body })).status, 200);
      const key = shown('API key');
      const [line = '', target = ''] =
        /^ {2}curl -H 'Authorization: Bearer \S+' (\S+)$/m.exec(text) ?? assert.fail(text);
      assert.ok(line.includes(key) && target.startsWith(`${address}/api/v1/`), line);
      const answered = await send(target, 'GET ', { key });
      assert.equal((answered.json.data as unknown[]).length, 20);
      const { stdout } = await promisify(execFile)('sh', ['-c', `${line} -s`]).catch((cause) => {
        // Not every machine has curl.
        if (cause.code === 127) return { stdout: answered.text };
        throw cause;
      });
      assert.equal(stdout, answered.text);
      await stop(first);

      const later = await run();
      assert.match(later.stdout(), /^Serving \S+, explorer at \S+, on .+\n$/);
      await stop(later);
    });

    test('SIGTERM: answers a request in flight, accepts no new ones and exits with 0', async () => {
      const { environment } = await withTables();
      const service = await serve(environment);
      const key = String(service.printed.key);
      const body = JSON.stringify({ last_name: 'in flight' });
      const socket = await opened(service.url);
      socket.send(
        `POST /api/v1/leads HTTP/1.1\r\nHost: crm\r\nAuthorization: Bearer ${key}\r\nExpect: 100-continue\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
      );
      await until(() => socket.text().startsWith('HTTP/1.1 100 '), 'the head to be read');
      service.signal('SIGTERM');
      const refused = () =>
        service.call('GET /docs/openapi.json').then(
          () => false,
          () => true,
        );
      await until(refused, 'nothing new to be taken');
      socket.send(body);
      const { code, stderr } = await service.ended;
      assert.deepEqual([code, stderr], [0, '']);
      await socket.ended;
      assert.match(socket.text(), /\r\nHTTP\/1\.1 201 Created\r\n/);
      const kept = await rows(environment, `select last_name from leads where last_name = 'in flight'`);
      assert.equal(kept.length, 1);
    });
  });
}

test('the startup output names the database, the number of workers and the URLs for operators', () => {
  const [url, adminUrl] = ['http://127.0.0.1:1', 'http://127.0.0.1:2'];
  const info = { url, adminUrl, example: 'leads', demo: undefined };
  const several = readConfig({ DATABASE_URL: 'postgres://127.0.0.1/crm', WORKERS: '3' });
  assert.deepEqual(startupBanner(several, info), {
    json: { url, admin: adminUrl, database: 'postgresql', workers: 3 },
    text: `Serving ${url}, explorer at ${url}/docs, on PostgreSQL, with 3 workers\nOperators: ${adminUrl}/livez, ${adminUrl}/readyz and ${adminUrl}/metrics`,
  });
  assert.deepEqual(startupBanner(readConfig({ DATA_DIR: '/data' }), { ...info, adminUrl: undefined }), {
    json: { url, database: 'embedded' },
    text: `Serving ${url}, explorer at ${url}/docs, on the embedded database in /data`,
  });
});

test('the example request is for a resource with filters, if there is one', async () => {
  const shipped = await sourcesWith({
    file: 'a.yaml',
    text: 'common: all\nfields: { name: { type: string } }\n',
  });
  const resources = compileResource(checkSources(shipped), '/api/v1', []);
  const [first] = resources;
  assert.deepEqual([first?.name, first?.definition.filters.length], ['a', 0]);
  assert.equal(exampleResource(resources), resources.find(({ name }) => name !== 'a')?.name);
  assert.deepEqual([exampleResource(resources.slice(0, 1)), exampleResource([])], ['a', '']);
});

describe('rejected starts', { concurrency: 2 }, () => {
  const embedded = withStorage('embedded');
  const withTables = withStorage('embedded', {}, migratedStorage);
  const postgres = withStorage('postgresql');
  const silent: Server = createServer();
  before(() => new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve)));
  after(() => silent.close());
  const portOf = (server: Server) => String((server.address() as { port: number }).port);

  test('reports a port in use in one line, and the next start on a free port is a first start', async () => {
    const { environment } = await withTables();
    const port = portOf(silent);
    for (const variable of ['PORT', 'ADMIN_PORT']) {
      const ports = { PORT: '0', [variable]: port };
      const refused = await crm(['serve', '--json'], { ...environment, ...ports }, apart);
      assertRefused(refused, `port ${port} on 127.0.0.1 is already in use. Choose another with ${variable}`);
    }
    assert.deepEqual(await rows(environment, 'select id::text from crm_organizations'), []);
    const service = await serve(environment);
    assert.ok(service.printed.key);
    await stop(service);
  });

  test('names the variable of the port or host that cannot be used', async () => {
    const app = {
      listen: async (address: object) => String(await once(createServer().listen(address), 'listening')),
    };
    const main = (host: string, port: string) => listen(app, { host, port: Number(port) }, '');
    const admin = (adminHost: string, adminPort: string) =>
      startAdminListener({ ...readConfig({}), adminHost, adminPort: Number(adminPort) }, {} as never);
    for (const [start, prefix] of [
      [main, ''],
      [admin, 'ADMIN_'],
    ] as const) {
      const port = portOf(silent);
      await assert.rejects(start('127.0.0.1', port), {
        message: `port ${port} on 127.0.0.1 is already in use. Choose another with ${prefix}PORT`,
      });
      await assert.rejects(start('192.0.2.1', '0'), {
        message: `192.0.2.1 is not an IP address of this machine. Choose another with ${prefix}HOST`,
      });
    }
  });

  test('the printed URL works on this machine even if the service listens on all addresses', () => {
    const port = portOf(silent);
    for (const [host, url] of [
      ['0.0.0.0', `http://127.0.0.1:${port}`],
      ['::', `http://127.0.0.1:${port}`],
      ['::1', `http://[::1]:${port}`],
      ['127.0.0.2', `http://127.0.0.2:${port}`],
    ] as const)
      assert.equal(urlOf({ server: silent as never }, host), url);
  });

  test('crm dev does not start with several workers', async () => {
    const environment = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing', WORKERS: '2' };
    assertRefused(await crm(['dev'], environment), 'crm dev runs a single process. Unset WORKERS.');
  });

  test('reports a data folder in use in one line', async () => {
    const { environment, folder } = await withTables();
    const service = await serve(environment);
    const message = `the data folder ${folder} is in use by another process; stop that process, or choose another folder with DATA_DIR`;
    assertRefused(await crm(['serve', '--json'], { ...environment, PORT: '0' }, apart), message);
    assert.equal((await service.call('GET /docs/openapi.json')).status, 200);
    await stop(service);
    assert.deepEqual(await rows(environment, 'select slug from crm_organizations'), [['demo']]);
  });

  test('finds migrations in any folder', async () => {
    const { environment } = await withTables();
    const elsewhere = temporaryFolder();
    try {
      cpSync(join(import.meta.dirname, '../../migrations'), elsewhere.path, { recursive: true });
      const made = await crm(['org', 'create', 'acme'], { ...environment, MIGRATIONS_DIR: elsewhere.path });
      assert.deepEqual([made.code, made.stderr], [0, '']);
    } finally {
      elsewhere.remove();
    }
  });

  for (const [what, text] of [
    ['no record of its resource', 'as_of: 2026-11-21\nrecords:\n  - { name: fine }\n  - { name: 7 }\n'],
    ['no list', 'as_of: 2026-11-21\nrecords: none\n'],
    ['no YAML', 'records: [\n'],
  ] as const) {
    test(`reports a sample that is ${what} with its location and creates nothing`, async () => {
      const { environment } = await withTables();
      const samples = temporaryFolder();
      try {
        writeFileSync(join(samples.path, 'accounts.yaml'), text);
        const refused = await crm(['serve'], { ...environment, SAMPLES_DIR: samples.path, PORT: '0' });
        assertRefused(refused, /accounts\.yaml(, record 2)?: /);
        assert.deepEqual(await rows(environment, 'select slug from crm_organizations'), []);
      } finally {
        samples.remove();
      }
    });
  }

  test('reports a missing database instead of creating it', async () => {
    const url = new URL(await postgresServer());
    url.pathname = '/no_such_database';
    for (const command of [['migrate'], ['serve']]) {
      const refused = await crm(command, { DATABASE_URL: url.href, MIGRATE_ON_START: 'true', PORT: '0' });
      assertRefused(refused, /no_such_database/);
    }
  });

  for (const command of [['serve'], ['migrate'], ['key', 'list', '--org', 'demo']]) {
    test(`reports an unresponsive database: ${command.join(' ')}`, async () => {
      const { folder } = await embedded();
      // A refusal is reported immediately, but on a busy machine it is noticed late. No other process uses port 1.
      for (const [port, told, timeoutMs] of [
        [1, /ECONNREFUSED/, 60_000],
        [portOf(silent), /timeout/i, 300],
      ] as const) {
        const environment = {
          DATABASE_URL: `postgres://someone:a-secret@127.0.0.1:${port}/crm`,
          DATABASE_CONNECT_TIMEOUT_MS: String(timeoutMs),
          DATA_DIR: folder,
          PORT: '0',
        };
        const refused = await crm(command, environment, command[0] === 'serve' ? apart : {});
        assertRefused(
          refused,
          new RegExp(`^crm: the database at 127\\.0\\.0\\.1:${port}/crm does not respond: `),
        );
        assert.match(refused.stderr, told);
        assert.doesNotMatch(refused.stderr, /a-secret|someone/);
        assert.ok(!existsSync(folder));
      }
    });
  }

  describe('invalid settings', () => {
    const temporary = temporaryFolder();
    const folder = join(temporary.path, 'data');
    after(temporary.remove);
    const wrong = {
      PORT: ['http', '-1', '65536', '3000.5'],
      DATABASE_URL: ['mysql://127.0.0.1/crm', '127.0.0.1:5432'],
      MIGRATE_ON_START: ['yes'],
      KEY_PREFIX: ['CRM_', 'crm'],
      DATABASE_POOL: ['0'],
      DATABASE_STATEMENT_TIMEOUT_MS: ['5s'],
      AUTH_SECRETS: ['short'],
      LOG_LEVEL: ['loud'],
    };
    crmTable(
      Object.entries(wrong).flatMap(([name, values]) =>
        values.map(
          (value) => [`${name}=${value}: rejects the value and creates nothing`, { name, value }] as const,
        ),
      ),
      ({ name, value }) => [['serve', '--json'], { PORT: '0', DATA_DIR: folder, [name]: value }],
      (outcome, { name }) => {
        assertRefused(
          outcome,
          `${name} must be ${Object.values(variables).find((variable) => variable.name === name)?.expected}`,
        );
        assert.ok(!existsSync(folder));
      },
    );
  });

  test('reports file, line and column of invalid YAML and creates nothing', async () => {
    const { folder } = await embedded();
    const resources = temporaryFolder();
    cpSync(readConfig({}).resources, resources.path, { recursive: true });
    for (const [text, told] of [
      ['singular: pet\ncommon: all\nfields: { name: { type: strng } }\n', /pets\.yaml:3:\d+ .*string/],
      ['singular: pet\nfields: [\n', /pets\.yaml:\d+:\d+ /],
    ] as const) {
      writeFileSync(join(resources.path, 'pets.yaml'), text);
      const environment = { PORT: '0', DATA_DIR: folder, RESOURCES_DIR: resources.path };
      const { code, stdout, stderr } = await crm(['serve', '--json'], environment, apart);
      assert.deepEqual([code, stdout], [1, ''], stderr);
      assert.match(stderr, told);
      assert.doesNotMatch(stderr, /^ {4}at /m, 'no stack trace');
      assert.ok(!existsSync(folder));
    }
    rmSync(resources.path, { recursive: true });
  });

  test('names the command to run if PostgreSQL has pending migrations, and starts once they are applied', async () => {
    const { environment } = await postgres();
    const refused = await crm(['serve', '--json'], { ...environment, PORT: '0' });
    assertRefused(
      refused,
      /^crm: the database is behind by \d+ migrations?: .* Run "npm run crm -- migrate"/,
    );
    for (const [table, found] of Object.entries(await contents(environment))) {
      assert.deepEqual([table, found], ['crm_migrations', []]);
    }
    const applied = (await crmJson(['migrate'], environment)).applied as string[];
    assert.equal(applied.length, migrations.length);
    const service = await serve(environment);
    assert.ok(service.printed.key);
    await stop(service);
  });

  test('applies migrations once and creates one demo organization on nodes that start together with MIGRATE_ON_START', async () => {
    const { environment } = await postgres();
    const together = { ...environment, MIGRATE_ON_START: 'true', PORT: '0' };
    const nodes = await Promise.all([1, 2].map(() => listening(start(['serve', '--json'], together))));
    const keys = nodes.flatMap(({ printed }) => (printed.key === undefined ? [] : [String(printed.key)]));
    assert.equal(keys.length, 1, 'one node created the organization');
    for (const { call } of nodes) {
      const answer = await call('GET /api/v1/leads', { key: keys[0] ?? '' });
      assert.equal(answer.status, 200, answer.text);
    }
    await Promise.all(nodes.map(stop));
    assert.deepEqual(await rows(environment, 'select slug from crm_organizations'), [['demo']]);
    const applied = await rows(environment, 'select name::text from crm_migrations');
    assert.equal(applied.length, migrations.length);
    assert.equal(new Set(applied.map(String)).size, migrations.length);
  });
});
