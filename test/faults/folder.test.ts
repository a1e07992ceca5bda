// The data folder of the embedded database: what is in its place, who may read it, first starts that are cut off,
// and a folder that goes away while it is in use.
import assert from 'node:assert/strict';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import type { Database } from '../../engine/database/database.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { temporaryFolder } from '../support/instance.ts';
import {
  apart,
  assertRefused,
  crm,
  migrated,
  type Options,
  type Process,
  rowsApart,
  serve,
  start,
  until,
} from '../support/process.ts';
import { clusterFolder, copyFolder } from '../support/templates.ts';

/** Opens the embedded database of a folder in a process of its own, says so, and waits to be killed. */
const opener: Options = {
  program: [
    '--input-type=module',
    '-e',
    `import { readConfig } from ${JSON.stringify(import.meta.resolve('../../app/config.ts'))};
     import { openDatabase } from ${JSON.stringify(import.meta.resolve('../../engine/database/open.ts'))};
     await openDatabase(readConfig(), []);
     console.log('open');
     setInterval(() => {}, 1000);`,
  ],
};
/** Uses a folder while something happens to it, in a process of its own: PGlite leaves a timer where it is not closed. */
const losing: Options = {
  program: [
    '--input-type=module',
    '-e',
    `import { cpSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
     import { setTimeout as pause } from 'node:timers/promises';
     import { readConfig } from ${JSON.stringify(import.meta.resolve('../../app/config.ts'))};
     import { openDatabase } from ${JSON.stringify(import.meta.resolve('../../engine/database/open.ts'))};
     const { FOLDER, COMPLETE } = process.env;
     const pgdata = FOLDER + '/pgdata';
     const remove = () => rmSync(pgdata, { recursive: true });
     const happenings = {
       moved: () => renameSync(FOLDER, FOLDER + '.moved'),
       removed: remove,
       replaced: () => { remove(); cpSync(COMPLETE + '/pgdata', pgdata, { recursive: true }); },
       unlocked: () => rmSync(FOLDER + '/lock'),
       idle: () => renameSync(pgdata, pgdata + '.moved'),
     };
     const files = () => String(existsSync(pgdata) && readdirSync(pgdata, { recursive: true }));
     const outcomes = {};
     for (const [what, happen] of Object.entries(happenings)) {
       cpSync(COMPLETE, FOLDER, { recursive: true });
       const database = await openDatabase(readConfig({ DATA_DIR: FOLDER }), []);
       const insert = () => database.run({ name: '', text: 'insert into kept values (1)', values: [] });
       await insert();
       happen();
       const before = files();
       const outcomeOf = (work) => work().then(() => 'acknowledged', (cause) => cause.message);
       const error = what === 'idle' ? '' : await outcomeOf(insert);
       const byOrm = what === 'idle' ? '' : await outcomeOf(() =>
         database.orm.em.fork().transactional((em) =>
           em.getConnection().execute('insert into kept values (2)', [], 'run', em.getTransactionContext())));
       const lost = (await Promise.race([database.lost, pause(1000)]))?.message;
       await database.close();
       outcomes[what] = { error, byOrm, lost, isWritten: files() !== before };
       for (const path of [FOLDER, FOLDER + '.moved']) rmSync(path, { recursive: true, force: true });
     }
     console.log(JSON.stringify(outcomes));
     process.exit();`,
  ],
};
const open = (folder: string): Promise<Database> => openDatabase(readConfig({ DATA_DIR: folder }), []);
const select = (database: Database, text: string) => database.run({ name: '', text, values: [] });
const entries = (folder: string): string[] =>
  existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : [];

describe('the data folder', { concurrency: 1 }, () => {
  const temporary = temporaryFolder();
  after(() => temporary.remove());
  let count = 0;
  const newFolder = (): string => join(temporary.path, `data${++count}`);
  /** A folder that holds a complete cluster. */
  const complete = join(temporary.path, 'complete');
  before(async () => {
    cpSync(await clusterFolder(), complete, { recursive: true });
    const database = await open(complete);
    await select(database, 'create table kept as select 7 as id');
    await database.close();
  });

  test('what is stored is not accessible to other users, also in a folder from before', async () => {
    const others = (folder: string) =>
      ['', ...entries(folder)].filter((name) => (lstatSync(join(folder, name)).mode & 0o077) !== 0);
    assert.deepEqual(others(complete), []);
    const folder = newFolder();
    cpSync(complete, folder, { recursive: true });
    for (const name of ['pgdata/base', 'pgdata', '']) chmodSync(join(folder, name), 0o755);
    for (const name of ['lock', 'pgdata/PG_VERSION']) chmodSync(join(folder, name), 0o666);
    const database = await open(folder);
    await select(database, 'create table further as select 8 as id');
    await database.close();
    assert.deepEqual(others(folder), []);
  });

  for (const [name, place] of [
    ['pgdata', 'is not a database: move it away or restore it'],
    ['pgdata.new', 'was not left by a first start: move it away'],
  ] as const) {
    test(`a ${name} that is something else is refused and stays as it is`, async () => {
      const folder = newFolder();
      mkdirSync(join(folder, name), { recursive: true });
      writeFileSync(join(folder, name, 'cluster'), 'mine');
      const before = entries(folder);
      await assert.rejects(open(folder), { name: 'UserError', message: `${join(folder, name)} ${place}` });
      assert.deepEqual(entries(folder).sort(), [...before, 'lock'].sort());
      assert.equal(readFileSync(join(folder, name, 'cluster'), 'utf8'), 'mine');
    });
  }

  test('an empty pgdata.new, left by a removal that was cut off, is removed', async () => {
    const folder = newFolder();
    cpSync(complete, folder, { recursive: true });
    mkdirSync(join(folder, 'pgdata.new'));
    const database = await open(folder);
    await database.close();
    assert.ok(!existsSync(join(folder, 'pgdata.new')));
  });

  test('a path that cannot be a folder is refused in one line', async () => {
    const file = join(temporary.path, 'file');
    writeFileSync(file, '');
    for (const [folder, reason] of [
      [file, 'it is not a folder'],
      [join(file, 'data'), 'a component of its path is not a folder'],
      ...(process.platform === 'linux'
        ? ([
            ['/sys/crm-data', /^(this process may not write there|it is on a read-only file system)$/],
          ] as const)
        : []),
    ] as const) {
      await assert.rejects(open(folder), ({ name, message }: Error) => {
        const begin = `the data folder ${folder} cannot be used: `;
        assert.ok(name === 'UserError' && message.startsWith(begin), message);
        assert.match(
          message.slice(begin.length),
          typeof reason === 'string' ? new RegExp(`^${reason}$`) : reason,
        );
        return true;
      });
    }
  });

  // Node's recursive mkdir would never return, so that nothing in the same process could stop it.
  test('a folder below /proc is refused in one line', { skip: process.platform !== 'linux' }, async () => {
    const environment = { DATA_DIR: '/proc/crm/data', AUTH_SECRETS: 'x'.repeat(32), PORT: '0' };
    const refused = await crm(['serve', '--json'], environment, apart);
    assertRefused(refused, 'the data folder /proc/crm/data cannot be used: it cannot be created there');
  });

  test('a first start that is killed at any moment can be started again', async () => {
    const folder = newFolder();
    const building = join(folder, 'pgdata.new', 'cluster');
    const cluster = join(folder, 'pgdata');
    // Also where the cluster were built in its final place.
    const files = () => entries(existsSync(building) ? building : cluster).length;
    const moments: readonly [string, () => boolean][] = [
      ['the mark', () => existsSync(dirname(building)) || existsSync(cluster)],
      ['the new cluster', () => existsSync(building) || existsSync(cluster)],
      ['most files', () => files() >= 700],
      ['the whole', () => existsSync(cluster)],
    ];
    // Each continues from what the one before has left; the last is not cut off.
    for (const [what, hasCome] of [...moments, ['open', undefined] as const]) {
      const opening: Process = start([], { DATA_DIR: folder }, opener);
      const hasOpened = () => opening.stdout() === 'open\n';
      await until(() => hasCome?.() || hasOpened(), what, 120_000);
      await opening.kill();
      assert.equal(opening.stderr(), '', what);
      const isComplete = existsSync(join(cluster, 'global', 'pg_control'));
      assert.equal(existsSync(cluster), isComplete, `${what}: what is in its final place is complete`);
    }
    assert.ok(!existsSync(dirname(building)), 'nothing is left over');
  });

  test('a folder that goes away while in use: nothing more is acknowledged, and it is noticed in a second', async () => {
    const folder = newFolder();
    const ended = await start([], { FOLDER: folder, COMPLETE: complete }, losing).ended;
    assert.deepEqual([ended.code, ended.stderr], [0, '']);
    const message = `the data folder ${folder} was removed or replaced while it was in use`;
    const outcomes = JSON.parse(ended.stdout) as Record<string, unknown>;
    for (const [what, outcome] of Object.entries(outcomes)) {
      const wanted = { error: message, byOrm: message, lost: message, isWritten: false };
      assert.deepEqual(outcome, what === 'idle' ? { ...wanted, error: '', byOrm: '' } : wanted, what);
    }
    assert.equal(Object.keys(outcomes).length, 5);
  });

  test('a service whose folder is moved away ends by itself and has lost nothing acknowledged', async () => {
    const folder = newFolder();
    await copyFolder(migrated, folder);
    const service = await serve({ DATA_DIR: folder });
    const key = String(service.printed.key);
    const acknowledged: string[] = [];
    let sent = 0;
    const client = async () => {
      for (;;) {
        const last_name = `lead ${++sent}`;
        const answer = await service.call('POST /api/v1/leads', { key, body: { last_name } });
        if (answer.status === 201) acknowledged.push(last_name);
      }
    };
    const clients = Promise.allSettled([client(), client()]);
    await until(() => acknowledged.length > 20, 'acknowledged leads');
    renameSync(folder, `${folder}.moved`);
    const { code, stdout, stderr } = await service.ended;
    await clients;
    assert.equal(code, 1, stdout);
    const lines = stderr.split('\n').filter((line) => !line.startsWith('{'));
    assert.deepEqual(lines, [
      `crm: the data folder ${folder} was removed or replaced while it was in use`,
      '',
    ]);
    const moved = { DATA_DIR: `${folder}.moved` };
    const found = new Set((await rowsApart(moved, 'select last_name from leads')).flat());
    assert.deepEqual(
      acknowledged.filter((name) => !found.has(name)),
      [],
    );
  });
});
