// Commands and PostgreSQL clients reach a running embedded database through its socket in the data folder.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { readConfig } from '../../app/config.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { pgInternals } from '../../engine/database/pg-internals.ts';
import { prepareSocket, socketFolder } from '../../engine/database/socket-path.ts';
import { temporaryFolder } from '../support/instance.ts';
import { ownFiles } from '../support/own-files.ts';
import { soonerThan } from '../support/people.ts';
import {
  assertRefused,
  crm,
  crmJson,
  migrated,
  migratedStorage,
  type Options,
  type Service,
  type Storage,
  serve,
  start,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';
import { copyFolder } from '../support/templates.ts';

const socketName = '.s.PGSQL.5432';

/** Connects as psql and pg do, with the socket's folder as the host. */
async function connect(folder: string): Promise<pg.Client> {
  const client = new pg.Client({ host: folder, user: 'postgres', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** Opens a transaction, writes, reports it, and keeps it open until it is killed. */
const writer: Options = {
  program: [
    '--input-type=module',
    '-e',
    `import pg from ${JSON.stringify(import.meta.resolve('pg'))};
     const client = new pg.Client({ host: process.env.DATA_DIR, user: 'postgres', database: 'postgres' });
     await client.connect();
     await client.query('begin');
     await client.query("update crm_organizations set name = 'never'");
     console.log('open');
     // The server ends an idle transaction after a while.
     setInterval(() => client.query('select'), 1000);`,
  ],
};

describe('commands while an embedded server runs', { concurrency: 1 }, () => {
  let storage: Storage;
  let service: Service;
  let environment: Storage['environment'];
  let folder: string;
  const key = () => String(service.printed.key);
  const names = async (): Promise<readonly string[]> => {
    const client = await connect(folder);
    const { rows } = await client.query<{ name: string }>('select name from crm_organizations order by id');
    await client.end();
    return rows.map(({ name }) => name);
  };
  before(async () => {
    storage = await migratedStorage('embedded');
    ({ environment, folder } = storage);
    service = await serve({ ...patient, ...environment });
  });
  after(() => storage.remove());

  test('restricts the socket to its owner and rejects a second server', async () => {
    assert.equal(statSync(join(folder, socketName)).mode & 0o777, 0o600);
    const message = `the data folder ${folder} is in use by another process; stop that process, or choose another folder with DATA_DIR`;
    for (const command of ['serve', 'dev']) {
      assertRefused(await crm([command], { ...environment, PORT: '0' }), message);
    }
  });

  test('serves records written by a command immediately and exports those written by the server', async () => {
    await crmJson(['org', 'create', 'acme', '--name', 'Acme Ltd'], environment);
    const made = await crmJson(
      ['key', 'create', '--org', 'acme', '--profile', 'administrator', '--name', 'x'],
      environment,
    );
    const created = await service.call('POST /api/v1/accounts', {
      key: String(made.key),
      body: { name: 'Served' },
    });
    assert.equal(created.status, 201);
    const exported = await crm(['export', 'accounts', '--org', 'acme', '--format', 'ndjson'], environment);
    assert.deepEqual(
      exported.stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { name: string }).name),
      ['Served'],
    );
    const file = join(folder, '../accounts.csv');
    writeFileSync(file, 'name\nImported\n');
    await crmJson(['import', 'accounts', file, '--org', 'acme'], environment);
    const { json } = await service.call('GET /api/v1/accounts?sort=name', { key: String(made.key) });
    assert.equal((json.data as unknown[]).length, 2);
    await crmJson(['key', 'revoke', String(made.id), '--org', 'acme'], environment);
    await soonerThan(
      1000,
      async () => (await service.call('GET /api/v1/accounts', { key: String(made.key) })).status === 401,
    );
  });

  test('keeps serving while commands run, one statement at a time', async () => {
    const commands = Promise.all(
      Array.from({ length: 4 }, (_, index) => crm(['org', 'create', `beside-${index}`], environment)),
    );
    let isDone = false;
    commands.finally(() => {
      isDone = true;
    });
    const statuses = new Set<number>();
    while (!isDone) {
      const name = `n${statuses.size}`;
      statuses.add((await service.call('POST /api/v1/accounts', { key: key(), body: { name } })).status);
    }
    assert.deepEqual([...statuses], [201]);
    assert.deepEqual(
      (await commands).map(({ code, stderr }) => [code, stderr]),
      Array(4).fill([0, '']),
    );
  });

  test('runs a transaction exclusively and rolls back a killed command', async () => {
    const before = await names();
    const killed = start([], environment, writer);
    await until(() => killed.stdout().includes('open'), 'the transaction');
    let isServed = false;
    const created = service
      .call('POST /api/v1/accounts', { key: key(), body: { name: 'waits' } })
      .finally(() => {
        isServed = true;
      });
    const client = await connect(folder);
    const counted = client.query<{ n: string }>(
      `select count(*) n from crm_organizations where name = 'never'`,
    );
    assert.equal(isServed, false);
    // A statement that waits is not run for a client that has disconnected.
    const gone = await connect(folder);
    const lost = assert.rejects(gone.query(`update crm_organizations set name = 'by nobody'`));
    /** Waits until the server has noticed earlier messages and disconnects. */
    const noticed = async () => assert.equal((await service.call('GET /docs/openapi.json')).status, 200);
    await noticed();
    pgInternals(gone).connection.stream.destroy();
    await noticed();
    await lost;
    await killed.kill();
    assert.equal((await created).status, 201);
    assert.equal((await counted).rows[0]?.n, '0');
    await client.end();
    assert.deepEqual(await names(), before);
  });

  test('resets session state changed by a client', async () => {
    const client = await connect(folder);
    for (const statement of [
      `set search_path = nowhere`,
      `select set_config('default_transaction_read_only', 'on', false)`,
      `set role pg_monitor`,
      `create temp table accounts (id int)`,
    ]) {
      await client.query(statement);
      const { status } = await service.call('POST /api/v1/accounts', { key: key(), body: { name: 'x' } });
      assert.equal(status, 201, statement);
    }
    const state = `select current_setting('default_statistics_target') as target, session_user as role,
      (select count(*) from pg_cursors) + (select count(*) from pg_listening_channels())
        + (select count(*) from pg_locks where locktype = 'advisory') as rest`;
    for (const statement of [
      'set default_statistics_target = 100',
      'set session authorization pg_monitor',
      'declare kept cursor with hold for select 1',
      'listen changes',
      'select pg_advisory_lock(7)',
    ]) {
      await client.query(statement);
      const { rows } = await client.query(state);
      assert.deepEqual(rows, [{ target: '10', role: 'postgres', rest: '0' }], statement);
    }
    for (const statement of ['copy accounts (name) from stdin', 'COPY accounts FROM\n STDIN']) {
      await assert.rejects(client.query(statement), { code: '0A000' });
      await assert.rejects(client.query({ text: statement, values: [] }), { code: '0A000' });
    }
    await assert.rejects(client.query('select 1/0'), { code: '22012' });
    // The rows are requested in parts, between which the client does not end the statement.
    const inParts = { text: 'select n::text from generate_series(1, 5) n', values: [], rows: 2 };
    const { rows: parts } = await client.query<{ n: string }>(inParts);
    assert.equal(parts.map(({ n }) => n).join(), '1,2,3,4,5');
    const parameters = ['50% of café', null];
    const { rows } = await client.query('select $1::text as a, $2::text as b', parameters);
    assert.deepEqual(rows, [{ a: parameters[0], b: null }]);
    await client.end();
  });

  test('declines encryption, and closes connections that cancel statements', async () => {
    const socket = connectSocket(join(folder, socketName));
    socket.on('error', () => {});
    let received = '';
    socket.on('data', (bytes: Buffer) => {
      received += bytes.toString('latin1');
    });
    const closed = once(socket, 'close');
    const send = (code: number, ...rest: readonly number[]) => {
      const message = Buffer.alloc(8 + 4 * rest.length);
      for (const [index, value] of [message.length, code, ...rest].entries())
        message.writeInt32BE(value, 4 * index);
      socket.write(message);
    };
    const [ssl, gss, cancel] = [80_877_103, 80_877_104, 80_877_102];
    // The first statement can arrive together with the start of the connection.
    const eager = connectSocket(join(folder, socketName));
    let answer = '';
    eager.on('data', (bytes: Buffer) => {
      answer += bytes.toString('latin1');
    });
    const parameters = Buffer.from('user\0postgres\0database\0postgres\0\0');
    const statement = Buffer.from("select 'eager'\0");
    const start = Buffer.alloc(8 + parameters.length + 5 + statement.length);
    start.writeInt32BE(8 + parameters.length, 0);
    start.writeInt32BE(196_608, 4);
    parameters.copy(start, 8);
    start.write('Q', 8 + parameters.length);
    start.writeInt32BE(4 + statement.length, 9 + parameters.length);
    statement.copy(start, 13 + parameters.length);
    eager.write(start);
    await until(() => /eager/.test(answer), 'the result of the first statement');
    eager.destroy();
    send(ssl);
    await until(() => received === 'N', 'the first response');
    send(gss);
    await until(() => received === 'NN', 'the second response');
    send(cancel, 1, 2);
    await closed;
    assert.equal(received, 'NN');
  });

  test('ends an idle transaction, but no client that has completed one', async () => {
    const other = await connect(folder);
    for (const statement of ['begin', 'select', 'commit']) await other.query(statement);
    const client = await connect(folder);
    await client.query('begin');
    let hasEnded = false;
    client.once('end', () => {
      hasEnded = true;
    });
    const created = service.call('POST /api/v1/accounts', { key: key(), body: { name: 'waits' } });
    await until(() => hasEnded, 'end the transaction');
    assert.equal((await created).status, 201);
    assert.equal((await other.query('select')).rowCount, 1);
    await other.end();
    assert.equal(
      (await service.call('POST /api/v1/accounts', { key: key(), body: { name: 'x' } })).status,
      201,
    );
  });

  test('statements of commands have no time limit, because they wait for the session', async () => {
    const limits = { DATABASE_STATEMENT_TIMEOUT_MS: '1', DATABASE_LIST_TIMEOUT_MS: '1' };
    const database = await openDatabase(readConfig({ DATA_DIR: folder, ...limits }), []);
    // Runs longer than the limits and the time after them in which the server could cancel it.
    const text = `do $$ declare stop timestamptz := clock_timestamp() + interval '1.5 seconds'; begin
      while clock_timestamp() < stop loop null; end loop; end $$`;
    const run = (lane: 'read' | 'list') => database.run({ lane, name: '', text, values: [] });
    try {
      assert.deepEqual(await Promise.all([run('read'), run('list')]), [[], []]);
    } finally {
      await database.close();
    }
  });

  test('rejects pending migrations because the server runs statements for its tables', async () => {
    const files = ownFiles();
    writeFileSync(
      join(files.environment.MIGRATIONS_DIR, 'Migration20991231000000_later.ts'),
      readFileSync(join(files.environment.MIGRATIONS_DIR, files.migrations()[0] ?? ''), 'utf8').replaceAll(
        /\w+_initial/g,
        'Migration20991231000000_later',
      ),
    );
    const outcome = await crm(['migrate'], { ...environment, ...files.environment });
    files.remove();
    assertRefused(
      outcome,
      /1 migration is pending, but a running server is using the database: stop it first/,
    );
  });

  test('starts despite the files of a killed server', async () => {
    await service.kill();
    assert.ok(existsSync(join(folder, socketName)));
    await crmJson(['org', 'create', 'after'], environment);
    service = await serve(environment);
    assert.ok((await names()).includes('after'));
    service.signal('SIGTERM');
    assert.equal((await service.ended).code, 0);
    assert.ok(!existsSync(join(folder, socketName)));
  });

  test("places the socket elsewhere if the data folder's path is long", async () => {
    const temporary = temporaryFolder();
    const deep = join(temporary.path, 'd'.repeat(120));
    const short = temporaryFolder();
    const long = { DATA_DIR: deep, TMPDIR: short.path };
    await copyFolder(migrated, deep);
    const left = join(short.path, 'crm-socket-left-by-a-killed-server');
    mkdirSync(left);
    writeFileSync(join(deep, 'socket-folder'), left);
    const server = await serve(long);
    await crmJson(['key', 'list', '--org', 'demo'], long);
    const places = () => readdirSync(short.path).filter((name) => name.startsWith('crm-socket-'));
    const [place = '', ...more] = places();
    assert.deepEqual([existsSync(left), more], [false, []]);
    assert.equal(readFileSync(join(deep, 'socket-folder'), 'utf8'), join(short.path, place));
    assert.equal(statSync(join(short.path, place)).mode & 0o777, 0o700);
    server.signal('SIGTERM');
    await server.ended;
    assert.deepEqual([places(), existsSync(join(deep, 'socket-folder'))], [[], false]);
    temporary.remove();
    short.remove();
  });
});

test('the socket is in the data folder if its path has up to 103 bytes; other folders are never removed', () => {
  const temporary = temporaryFolder();
  const room = 103 - join(temporary.path, 'x', socketName).length + 1;
  for (const [name, isInside] of [
    ['d'.repeat(room), true],
    ['d'.repeat(room + 1), false],
    [`${'d'.repeat(room - 1)}ü`, false],
  ] as const) {
    const folder = join(temporary.path, name);
    mkdirSync(folder);
    // A file with the name of a folder that the service did not create.
    writeFileSync(join(folder, 'socket-folder'), temporary.path);
    assert.equal(socketFolder(folder), folder);
    const socket = prepareSocket(folder);
    assert.equal(socket.path === join(folder, socketName), isInside, name);
    assert.equal(join(socketFolder(folder), socketName), socket.path);
    assert.equal(existsSync(dirname(socket.path)), true);
    socket.remove();
    assert.equal(existsSync(dirname(socket.path)), isInside);
    assert.equal(socketFolder(folder), folder);
  }
  temporary.remove();
});
