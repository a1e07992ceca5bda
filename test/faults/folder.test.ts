// The embedded database's data folder: other content at its path, file permissions, interrupted first
// starts, and a folder that is removed while in use.
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
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import type { Database } from '../../engine/database/database.ts';
import { restrictAccess } from '../../engine/database/folder.ts';
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

/** Opens a folder's embedded database in another process, reports it, and waits to be killed. */
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
/**
 * Uses a folder in another process while the test changes it. PGlite leaves a timer running if it is not
 * closed.
 */
const losing: Options = {
  program: [
    '--input-type=module',
    '-e',
    `import { cpSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
     import { setTimeout as pause } from 'node:timers/promises';
     import pg from ${JSON.stringify(import.meta.resolve('pg'))};
     import { readConfig } from ${JSON.stringify(import.meta.resolve('../../app/config.ts'))};
     import { openDatabase } from ${JSON.stringify(import.meta.resolve('../../engine/database/open.ts'))};
     import { socketFolder } from ${JSON.stringify(import.meta.resolve('../../engine/database/socket-path.ts'))};
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
       const database = await openDatabase({ ...readConfig({ DATA_DIR: FOLDER }), serves: true }, []);
       const statement = { name: '', text: 'insert into kept values (1)', values: [] };
       const insert = () => database.run(statement);
       await insert();
       const client = new pg.Client({ host: socketFolder(FOLDER), user: 'postgres', database: 'postgres' });
       client.on('error', () => {});
       await client.connect();
       const ways = {
         error: insert,
         byOrm: () => database.orm.em.fork().transactional((em) =>
           em.getConnection().execute('insert into kept values (2)', [], 'run', em.getTransactionContext())),
         inTransaction: () => database.atomically((run) => run(statement), { organization: '1', access: 'write', lane: 'write' }),
         bySocket: () => client.query('insert into kept values (3)').catch(() => Promise.reject(new Error('lost'))),
       };
       happen();
       const before = files();
       const outcomeOf = (work) => work().then(() => 'acknowledged', (cause) => cause.message);
       const errors = {};
       for (const [way, write] of Object.entries(ways)) errors[way] = what === 'idle' ? '' : await outcomeOf(write);
       const lost = (await Promise.race([database.lost, pause(1000)]))?.message;
       await database.close();
       outcomes[what] = { ...errors, lost, isWritten: files() !== before };
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
  /** A folder with a complete cluster. */
  const complete = join(temporary.path, 'complete');
  let completeIdentity = '';
  const identityOf = async (database: Database) =>
    String(await select(database, 'select unnest(setconfig) from pg_db_role_setting'));
  before(async () => {
    cpSync(await clusterFolder(), complete, { recursive: true });
    const database = await open(complete);
    await select(database, 'create table kept as select 7 as id');
    completeIdentity = await identityOf(database);
    await database.close();
  });

  test('keeps stored data inaccessible to other users, including in existing folders', async () => {
    const others = (folder: string) =>
      ['', ...entries(folder)].filter((name) => (lstatSync(join(folder, name)).mode & 0o077) !== 0);
    assert.deepEqual(others(complete), []);
    const folder = newFolder();
    cpSync(complete, folder, { recursive: true });
    for (const name of ['pgdata/base', 'pgdata', '']) chmodSync(join(folder, name), 0o755);
    for (const name of ['lock', 'pgdata/PG_VERSION']) chmodSync(join(folder, name), 0o666);
    const database = await open(folder);
    assert.deepEqual(others(folder), [], 'while it is open');
    await select(database, 'create table further as select 8 as id');
    await database.close();
    assert.deepEqual(others(folder), []);
  });

  test('removes each permission of the group and of other users from files and folders, and none of the owner', () => {
    const folder = newFolder();
    mkdirSync(join(folder, 'snapshots', 'kept'), { recursive: true });
    const modeOf = (name: string) => lstatSync(join(folder, name)).mode & 0o777;
    for (const [name, own] of [
      ['auth-secret', 0o600],
      ['snapshots/file', 0o400],
      ['snapshots/kept', 0o700],
      ['snapshots', 0o700],
      ['', 0o700],
    ] as const) {
      if (!existsSync(join(folder, name))) writeFileSync(join(folder, name), '');
      // 0640 and 0750 are what administrators set; the others have one permission each.
      for (const others of [0o040, 0o050, 0o020, 0o010, 0o004, 0o002, 0o001]) {
        chmodSync(join(folder, name), own | others);
        restrictAccess(folder);
        assert.equal(modeOf(name), own, `${name || 'the folder'} with ${(own | others).toString(8)}`);
      }
    }
    // Files of others, also if a link points to them, and the folder that contains them are not changed.
    const [linked, other] = [join(temporary.path, 'linked'), join(folder, 'other')];
    for (const path of [linked, other]) {
      writeFileSync(path, '');
      chmodSync(path, 0o644);
    }
    symlinkSync(linked, join(folder, 'snapshots', 'link'));
    for (const name of ['', 'snapshots']) chmodSync(join(folder, name), 0o755);
    restrictAccess(folder);
    assert.deepEqual(
      ['../linked', 'other', '', 'snapshots'].map((name) => modeOf(name).toString(8)),
      ['644', '644', '755', '700'],
    );
  });

  for (const [name, place] of [
    ['pgdata', 'is not a database: move it away or restore it'],
    ['pgdata.new', 'was not created by the first start: move it away'],
  ] as const) {
    test(`rejects a ${name} with other content and leaves it unchanged`, async () => {
      const folder = newFolder();
      mkdirSync(join(folder, name), { recursive: true });
      writeFileSync(join(folder, name, 'cluster'), 'mine');
      const before = entries(folder);
      // The first attempt does not keep the lock.
      for (let attempt = 0; attempt < 2; attempt++)
        await assert.rejects(open(folder), {
          name: 'UserError',
          message: `${join(folder, name)} ${place}`,
        });
      assert.deepEqual(entries(folder).sort(), [...before, 'lock'].sort());
      assert.equal(readFileSync(join(folder, name, 'cluster'), 'utf8'), 'mine');
    });
  }

  test('removes an empty pgdata.new that an interrupted removal left behind', async () => {
    const folder = newFolder();
    cpSync(complete, folder, { recursive: true });
    mkdirSync(join(folder, 'pgdata.new'));
    const database = await open(folder);
    await database.close();
    assert.ok(!existsSync(join(folder, 'pgdata.new')));
  });

  test('rejects a path that cannot be a folder with a one-line message', async () => {
    const file = join(temporary.path, 'file');
    writeFileSync(file, '');
    for (const [folder, reason] of [
      [file, 'it is not a folder'],
      [join(file, 'data'), 'a component of its path is not a folder'],
      ...(process.platform === 'linux'
        ? ([
            [
              '/sys/crm-data',
              /^(this process does not have write permission there|it is on a read-only file system)$/,
            ],
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

  // Node's recursive mkdir would never return, so nothing in the same process could stop it.
  test('rejects a folder below /proc with a one-line message', {
    skip: process.platform !== 'linux',
  }, async () => {
    const environment = { DATA_DIR: '/proc/crm/data', AUTH_SECRETS: 'x'.repeat(32), PORT: '0' };
    const refused = await crm(['serve', '--json'], environment, apart);
    assertRefused(refused, 'the data folder /proc/crm/data cannot be used: it cannot be created there');
  });

  test('starts again after a first start was killed at any moment', async () => {
    const folder = newFolder();
    const building = join(folder, 'pgdata.new', 'cluster');
    const cluster = join(folder, 'pgdata');
    // Also detects a cluster that is built at its final path.
    const files = () => {
      try {
        return entries(existsSync(building) ? building : cluster).length;
      } catch {
        // It was renamed in the meantime.
        return 0;
      }
    };
    const moments: readonly [string, () => boolean][] = [
      ['the mark', () => existsSync(dirname(building)) || existsSync(cluster)],
      ['the new cluster', () => existsSync(building) || existsSync(cluster)],
      ['most files', () => files() >= 700],
      ['the whole', () => existsSync(cluster)],
    ];
    // Each start continues from the state that the previous start left behind. The last start is not
    // interrupted.
    for (const [what, hasCome] of [...moments, ['open', undefined] as const]) {
      const opening: Process = start([], { DATA_DIR: folder }, opener);
      const hasOpened = () => opening.stdout() === 'open\n';
      await until(() => hasCome?.() || hasOpened(), what);
      await opening.kill();
      assert.equal(opening.stderr(), '', what);
      const isComplete = existsSync(join(cluster, 'global', 'pg_control'));
      assert.equal(existsSync(cluster), isComplete, `${what}: the cluster at the final path is complete`);
    }
    assert.ok(!existsSync(dirname(building)), 'no temporary files remain');
    const database = await open(folder);
    const identity = await identityOf(database);
    await database.close();
    assert.match(identity, /^crm\.cluster=[\da-f-]{36}$/);
    assert.notEqual(identity, completeIdentity, 'each cluster has its own identity');
  });

  test('stops acknowledging writes within a second after its folder is removed', async () => {
    const folder = newFolder();
    const ended = await start([], { FOLDER: folder, COMPLETE: complete }, losing).ended;
    assert.deepEqual([ended.code, ended.stderr], [0, '']);
    const message = `the data folder ${folder} was removed or replaced while it was in use`;
    const outcomes = JSON.parse(ended.stdout) as Record<string, unknown>;
    for (const [what, outcome] of Object.entries(outcomes)) {
      const errors = { error: message, byOrm: message, inTransaction: message, bySocket: 'lost' };
      const none = { error: '', byOrm: '', inTransaction: '', bySocket: '' };
      const wanted = { ...(what === 'idle' ? none : errors), lost: message, isWritten: false };
      assert.deepEqual(outcome, wanted, what);
    }
    assert.equal(Object.keys(outcomes).length, 5);
  });

  test('stops the service when its folder is moved, without losing acknowledged writes', async () => {
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
