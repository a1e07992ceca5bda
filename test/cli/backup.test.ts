// Backups: consistent snapshots during writes, exact restores on either driver, and rejection of incomplete files.
import assert from 'node:assert/strict';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readConfig } from '../../app/config.ts';
import { commandLine } from '../../engine/effects/actor.ts';
import { transaction } from '../../engine/tables/handle.ts';
import { organizationId } from '../../engine/tables/organizations.ts';
import { findUserBy } from '../../plugins/access/identity/operator-users.ts';
import { createMailedResets, createMemberReset } from '../../plugins/access/identity/resets.ts';
import { invite } from '../../plugins/access/members/invites.ts';
import { profileId } from '../../plugins/access/profiles/profiles.ts';
import { withSnapshot } from '../../plugins/operations/backup/dump.ts';
import { writeBackup } from '../../plugins/operations/backup/file.ts';
import { linesIn, rowsIn, type Served, served, writeLines } from '../support/backups.ts';
import { runCommand } from '../support/command-line.ts';
import { mountDisk } from '../support/disk.ts';
import { visitor } from '../support/forms.ts';
import { type Driver, drivers, type Instance, temporaryFolder } from '../support/instance.ts';
import {
  assertRefused,
  connected,
  contents,
  crm,
  crmJson,
  migratedStorage,
  rows,
  type Storage,
  serve,
  start,
  unmigratedStorage,
  until,
} from '../support/process.ts';
import { patient } from '../support/promised.ts';

const other: Readonly<Record<Driver, Driver>> = { embedded: 'postgresql', postgresql: 'embedded' };
const storages: Storage[] = [];
const storage = async (pending: Promise<Storage>): Promise<Storage> => {
  storages.push(await pending);
  return pending;
};
const folder = temporaryFolder();
after(async () => {
  for (const created of storages) await created.remove();
  folder.remove();
});

/** Tables that a restore changes intentionally, or that belong to a single database. */
const changing = ['crm_backups', 'crm_ledger_epochs', 'crm_migrations', 'crm_nodes'];
const rest = (tables: Record<string, string[]>, ...without: readonly string[]) =>
  Object.fromEntries(Object.entries(tables).filter(([table]) => ![...changing, ...without].includes(table)));

for (const driver of drivers) {
  describe(`backup and restore (${driver})`, () => {
    let source: Storage;
    let instance: Served;
    let key = '';
    let login = { email: '', password: '' };
    let bearer = '';
    let cursor = '';
    /** The paths and codes of links created before the backup: two reset links and an invitation. */
    let links: readonly (readonly [path: string, code: string])[] = [];
    const file = join(folder.path, `${driver}.backup`);
    const open = (served: Served, [path, code]: (typeof links)[number]) => {
      const password = 'a password from a link';
      return visitor(served).submit(path, path, { code, password, new: password, again: password });
    };
    /** Creates two reset links and an invitation. Returns the links. */
    const createLinks = (
      { config, database }: Served,
      { email, organization: slug }: { readonly email: string; readonly organization: string },
    ): Promise<typeof links> =>
      transaction(database, async (tables) => {
        const actor = commandLine(config);
        const { id } = await findUserBy(tables, email);
        const organization = await organizationId(tables, slug);
        const profile = await profileId(tables, organization, 'administrator');
        const resets = [
          ...(await createMailedResets(tables, email)),
          await createMemberReset(tables, actor, organization, id),
        ];
        const invited = await invite(tables, actor, { organization, profile, email: 'guest@demo.example' });
        return [
          ...resets.map(({ publicId, code }) => [`/setup/reset/${publicId}`, code] as const),
          [`/setup/invite/${invited.publicId}`, invited.code],
        ];
      });
    const backup = (path: string, ...more: string[]) =>
      runCommand(instance as unknown as Instance, ['backup', path, ...more]);

    before(async () => {
      source = await storage(migratedStorage(driver));
      instance = await served(source, patient);
      const { demo } = instance;
      assert.ok(demo);
      key = demo.key;
      login = { email: demo.email, password: demo.password };
      const answer = await instance.call('POST /auth/login', { body: login });
      bearer = String(answer.json.access_token);
      cursor = String((await instance.call('GET /events', { key })).json.next);
      links = await createLinks(instance, demo);
    });
    after(() => instance.close());

    test('is consistent during concurrent writes', async () => {
      let isOver = false;
      let written = 0;
      const writing = (async () => {
        while (!isOver) {
          const body = { last_name: `during ${written}` };
          const { status } = await instance.call('POST /api/v1/leads', { key, body });
          assert.equal(status, 201);
          written++;
        }
      })();
      await until(() => written > 3, 'write before');
      const moment = join(folder.path, `${driver}-moment.backup`);
      await backup(moment);
      const atEnd = written;
      await until(() => written > atEnd + 3, 'write after');
      isOver = true;
      await writing;
      const during = rowsIn(moment, 'leads').filter(({ last_name: name }) => name?.startsWith('during '));
      assert.ok(during.length > 3 && during.length < written, `${during.length} of ${written}`);
      const numbers = during.map(({ last_name: name }) => Number(name?.slice(7))).sort((a, b) => a - b);
      assert.deepEqual(numbers, [...numbers.keys()], 'every earlier record, without gaps');
      const recorded = rowsIn(moment, 'crm_ledger')
        .filter(
          ({ object, action, actor_kind: kind }) =>
            object === 'leads' && action === 'create' && kind === 'key',
        )
        .map(({ object_id: id }) => id);
      assert.deepEqual(recorded.sort(), during.map(({ id }) => id).sort(), 'records and their changes match');
    });

    test('is readable only by its owner, and never overwrites a file', async () => {
      const { json, text } = await backup(file);
      assert.equal(json.verified, false);
      const tables = Object.keys(json.tables as object).length;
      assert.equal(
        text,
        `Wrote ${json.rows} rows from ${tables} tables to ${file} (${json.bytes} bytes).\nThe file contains all data in the database. Protect it as you would the database.`,
      );
      assert.equal(json.bytes, statSync(file).size);
      assert.equal(statSync(file).mode & 0o777, 0o600);
      const bytes = readFileSync(file);
      await assert.rejects(backup(file), /cannot be written because it already exists/);
      assert.deepEqual(readFileSync(file), bytes);
      await assert.rejects(
        backup(join(folder.path, 'none/x.backup')),
        /cannot be written: it does not exist/,
      );
      assert.deepEqual(
        readdirSync(folder.path).filter((name) => name.includes('partial')),
        [],
      );
    });

    describe('restore', () => {
      let target: Storage;
      let again: Served;
      before(async () => {
        target = await storage(unmigratedStorage(driver));
        const printed = await crmJson(['restore', file], target.environment);
        assert.deepEqual(printed.keys, 'disable');
        assert.deepEqual(printed.ended, { keys: 1, sessions: 1, invites: 1 });
        again = await served(target);
      });
      after(() => again.close());

      test('ends all sessions, keys and links, and the change feed starts over', async () => {
        assert.equal(again.demo, undefined);
        assert.equal((await again.call('GET /api/v1/leads', { key })).status, 401);
        const old = await again.call('GET /auth/me', { headers: { authorization: `Bearer ${bearer}` } });
        assert.equal(old.status, 401);
        assert.equal(links.length, 3);
        for (const link of links) assert.equal((await open(again, link)).status, 400, link[0]);
        const { json, status } = await again.call('POST /auth/login', { body: login });
        assert.equal(status, 200);
        const headers = { authorization: `Bearer ${String(json.access_token)}` };
        const feed = await again.call(`GET /events?after=${cursor}`, { headers });
        assert.deepEqual([feed.status, feed.json.code], [410, 'cursor_expired']);
        const made = await again.call('POST /api/v1/leads', { headers, body: { last_name: 'new' } });
        const ids = rowsIn(file, 'leads').map(({ id }) => Number(id));
        assert.ok(Number((made.json as { id: number }).id) > Math.max(...ids), 'IDs continue');
        const missing = { last_name: 'new', account_id: 987654321 };
        const referring = await again.call('POST /api/v1/contacts', { headers, body: missing });
        assert.deepEqual([referring.status, referring.json.code], [400, 'missing_reference']);
        for (const link of [links[0], links[2]])
          assert.equal(
            (await open(instance, link ?? assert.fail())).status,
            303,
            'links of the source stay valid',
          );
      });
    });

    describe('restore on the other driver', () => {
      let target: Storage;
      before(async () => {
        target = await storage(unmigratedStorage(other[driver]));
      });

      test('restores every row, and keeps keys but neither sessions nor links valid with --keys keep', async () => {
        const {
          rows: count,
          tables,
          ended,
        } = await crmJson(['restore', file, '--keys', 'keep'], target.environment);
        assert.deepEqual(ended, { keys: 0, sessions: 1, invites: 1 });
        assert.ok(Number(count) > 600 && Number(tables) > 20);
        const quiet = join(folder.path, `${driver}-quiet.backup`);
        const again = await served(target);
        try {
          assert.equal((await again.call('GET /api/v1/leads', { key })).status, 200);
          const headers = { authorization: `Bearer ${bearer}` };
          assert.equal((await again.call('GET /auth/me', { headers })).status, 401);
          for (const link of links) assert.equal((await open(again, link)).status, 400, link[0]);
          // For the move below, which ends nothing.
          assert.equal((await again.call('POST /auth/login', { body: login })).status, 200);
          await createLinks(again, instance.demo ?? assert.fail());
        } finally {
          await again.close();
        }
        // A backup of the restored database contains the same rows, except those that a restore changes.
        await crmJson(['backup', quiet], target.environment);
        const [before, since] = [linesIn(file), linesIn(quiet)].map(
          (lines) =>
            JSON.parse(lines.at(-1) ?? '') as {
              end: { tables: Record<string, unknown>; sequences: Record<string, [string, boolean]> };
            },
        );
        const same = <T>(tables: Record<string, T> = {}) =>
          Object.fromEntries(
            Object.entries(tables).filter(
              ([name]) =>
                ![
                  'crm_ledger',
                  'crm_ledger_epochs',
                  'crm_invites',
                  'crm_resets',
                  'crm_sessions',
                  'crm_users',
                  'crm_api_keys',
                  'crm_name_uses',
                ].includes(name.split('.')[0] ?? ''),
            ),
          );
        assert.deepEqual(same(since?.end.tables), same(before?.end.tables));
        // The next ID of each table, even if no ID has been assigned yet or the latest row was deleted.
        const sequences = same(before?.end.sequences);
        assert.deepEqual(same(since?.end.sequences), sequences);
        for (const isUsed of [true, false])
          assert.ok(Object.values(sequences).some(([, used]) => used === isUsed));
        const hashes = (path: string) =>
          rowsIn(path, 'crm_users').map(({ email, password_hash: hash }) => [email, hash]);
        assert.deepEqual(hashes(quiet), hashes(file));
      });

      test('keeps every row when moved back, including sessions and links', async () => {
        const back = await storage(unmigratedStorage(driver));
        const to = driver === 'embedded' ? back.folder : String(back.environment.DATABASE_URL);
        const moved = await crmJson(['move', '--to', to], target.environment);
        assert.ok(Number(moved.rows) > 600);
        const { host, pathname } = driver === 'embedded' ? { host: '', pathname: to } : new URL(to);
        assert.equal(moved.to, `${host}${pathname}`, 'without the password');
        const [from, there] = [await contents(target.environment), await contents(back.environment)];
        const ledgerOf = (tables: Record<string, string[]>) =>
          tables.crm_ledger?.map((row) => row.replace(/"transaction":"?\d+"?/, '')).sort();
        for (const table of ['crm_sessions', 'crm_resets', 'crm_invites'])
          assert.notEqual(from[table]?.length ?? 0, 0, table);
        assert.deepEqual(rest(there, 'crm_ledger'), rest(from, 'crm_ledger'));
        assert.deepEqual(ledgerOf(there), ledgerOf(from));
        assert.equal(there.crm_ledger_epochs?.length, Number(from.crm_ledger_epochs?.length) + 1);
        assertRefused(
          await crm(['move', '--to', to], target.environment),
          /the database is not empty \(accounts has rows\)/,
        );
      });
    });

    test('restore fails if the database is not empty', async () => {
      const target = storages.at(-1);
      assert.ok(target);
      assertRefused(await crm(['restore', file], target.environment), /is not empty \(accounts has rows\)/);
    });

    const triggers: readonly (readonly [name: string, body: string])[] = [
      ['drops a row', `if new.name like '%a%' then return null; end if; return new;`],
      ['changes a value', 'new.name := upper(new.name); return new;'],
      [
        'adds a row',
        `insert into contacts (organization_id, id, created_at, updated_at) values (new.organization_id, 9000000 + new.id, now(), now()); return new;`,
      ],
    ];
    for (const [name, body] of triggers) {
      test(`restore fails completely if a custom trigger ${name}`, async () => {
        const target = await storage(migratedStorage(driver));
        const run = (text: string) => rows(target.environment, text);
        await run(`create function meddle() returns trigger language plpgsql as $$ begin ${body} end $$`);
        await run('create trigger meddle before insert on accounts for each row execute function meddle()');
        // Restores disable ordinary triggers.
        await run('alter table accounts enable always trigger meddle');
        assertRefused(
          await crm(['restore', file], target.environment),
          /the database has \d+ rows in (accounts|contacts)/,
        );
        for (const table of ['accounts', 'contacts', 'crm_organizations', 'crm_users'])
          assert.deepEqual(await run(`select from ${table}`), [], table);
      });
    }

    test('a restore does not run custom triggers, but keeps them', async () => {
      const target = await storage(migratedStorage(driver));
      const run = (text: string) => rows(target.environment, text);
      await run(`create function meddle() returns trigger language plpgsql as $$ begin return null; end $$`);
      await run('create trigger meddle before insert on accounts for each row execute function meddle()');
      const { stdout } = await crm(['restore', file], target.environment);
      const [manifest, last] = [0, -1].map((index) => JSON.parse(linesIn(file).at(index) ?? ''));
      const tables = Object.values(
        (last as { end: { tables: Record<string, { rows: number }> } }).end.tables,
      );
      const count = tables.reduce((sum, table) => sum + table.rows, 0);
      assert.equal(
        stdout,
        `Restored ${count} rows in ${tables.length} tables from the backup of ${manifest.made_at} and verified every row.
Sessions ended: 1. Open invitations ended: 1.
API keys revoked: 1, because keys revoked after the backup would become valid again. Pass --keys keep to keep them.
Change feed readers will get a 410 response and must start over.
`,
      );
      assert.deepEqual(await run(`select tgenabled from pg_trigger where tgname = 'meddle'`), [['O']]);
      const analyzed = `select (reltuples > 0)::text from pg_class where relname = 'accounts' and relnamespace = current_schema()::regnamespace`;
      assert.deepEqual(await run(analyzed), [['true']], 'the planner knows the tables');
    });

    // Migrations are the same on both drivers.
    if (driver !== drivers.at(-1)) return;

    test('a restore also restores the generated secret, and never replaces another one', async () => {
      const target = await storage(unmigratedStorage(driver));
      const secretFile = join(target.folder, 'auth-secret');
      const { auth_secret: secret } = JSON.parse(linesIn(file)[0] ?? '') as { readonly auth_secret: string };
      const others = 'a secret that was not used for the backup';
      mkdirSync(target.folder, { recursive: true });
      writeFileSync(secretFile, others, { mode: 0o600 });
      assertRefused(
        await crm(['restore', file], target.environment),
        /auth-secret contains a different secret than the backup/,
      );
      assert.equal(readFileSync(secretFile, 'utf8'), others);
      rmSync(secretFile);
      assert.deepEqual((await crmJson(['restore', file], target.environment)).notes, []);
      assert.equal(readFileSync(secretFile, 'utf8').trim(), secret);
      assert.equal(statSync(secretFile).mode & 0o777, 0o600);
      const { environment, folder } = await storage(unmigratedStorage(driver));
      const restoring = ['restore', file, '--keys', 'keep'];
      const { stdout } = await crm(restoring, { ...environment, AUTH_SECRETS: others });
      assert.match(
        stdout,
        /\nAPI keys were restored as they were, including keys revoked after the backup\.\n[\s\S]*\nNote: AUTH_SECRETS contains none of the secrets used when the backup was created\. /,
      );
      assert.ok(!existsSync(join(folder, 'auth-secret')), 'AUTH_SECRETS is used instead');
    });

    // The temporary database is embedded on both drivers.
    if (driver === 'postgresql')
      test('a check restores the backup into a temporary database and removes it', async () => {
        const temporary = join(folder.path, `${driver}-temporary`);
        mkdirSync(temporary);
        const { environment, folder: data } = await storage(unmigratedStorage(driver));
        const { rows: count, ...checked } = await crmJson(['restore', file, '--check'], {
          ...environment,
          TMPDIR: temporary,
        });
        assert.ok(Number(count) > 600);
        const { tables } = JSON.parse(linesIn(file)[0] ?? '') as { readonly tables: readonly unknown[] };
        assert.deepEqual(checked, { file, tables: tables.length, ok: true });
        assert.deepEqual(readdirSync(temporary), []);
        assert.ok(!existsSync(join(data, 'auth-secret')), 'nothing is restored');
      });

    test('restore migrates an older backup and rejects a newer one', async () => {
      const lines = linesIn(file);
      const manifest = JSON.parse(lines[0] ?? '') as { migrations: string[] };
      // This migration creates a table that backups do not contain.
      const later = manifest.migrations.find((name) => name.endsWith('_backups')) ?? '';
      const path = (name: string) => join(folder.path, `${driver}-${name}.backup`);
      const withMigrations = (name: string, migrations: readonly string[]) =>
        writeLines(path(name), [JSON.stringify({ ...manifest, migrations }), ...lines.slice(1)]);
      withMigrations(
        'older',
        manifest.migrations.filter((name) => name !== later),
      );
      withMigrations('newer', [...manifest.migrations, 'Migration20991231000000_later']);
      const target = await storage(unmigratedStorage(driver));
      assertRefused(
        await crm(['restore', path('newer')], target.environment),
        /the backup has 1 migration that this version does not have, for example Migration20991231000000_later/,
      );
      const { migrated } = await crmJson(['restore', path('older')], target.environment);
      assert.deepEqual(migrated, [later]);
      assertRefused(
        await crm(['restore', path('older')], (await storage(migratedStorage(driver))).environment),
        /has migrations newer than the backup/,
      );
    });
  });
}

test('a file that appears while a backup is written is not replaced', async () => {
  const own = temporaryFolder();
  const path = join(own.path, 'x.backup');
  const lines = async function* () {
    yield ['line'];
  };
  const written = writeBackup(
    path,
    (save) => save(lines()),
    async () => writeFileSync(path, 'mine'),
  );
  await assert.rejects(written, { name: 'UserError', message: /x\.backup cannot be written: / });
  assert.deepEqual([readdirSync(own.path), readFileSync(path, 'utf8')], [['x.backup'], 'mine']);
  own.remove();
});

describe('an incomplete backup file', () => {
  const source = join(folder.path, `${drivers[0]}.backup`);
  const wrong: readonly (readonly [name: string, make: (path: string) => void, says: RegExp])[] = [
    ['missing', () => {}, /cannot be read: it does not exist/],
    ['a folder', (path) => mkdirSync(path), /cannot be read: it is a folder/],
    ['empty', (path) => writeFileSync(path, ''), /not a complete backup/],
    ['another kind of file', (path) => writeFileSync(path, 'id,name\n'), /cut off or damaged/],
    ['another format', (path) => writeFileSync(path, gzipSync('{"crm_backup":2}\n')), /it has format 2/],
    [
      'unrelated JSON',
      (path) => writeFileSync(path, gzipSync('{"a":1}\n')),
      /its first line is not a backup manifest/,
    ],
    [
      'truncated',
      (path) => writeFileSync(path, readFileSync(source).subarray(0, -100)),
      /cut off or damaged/,
    ],
    [
      'truncated after a line',
      (path) => writeFileSync(path, gzipSync(`${linesIn(source).slice(0, -1).join('\n')}\n`)),
      /its end is missing/,
    ],
    [
      'altered',
      (path) =>
        writeFileSync(path, gzipSync(`${linesIn(source).join('\n').replace('admin@', 'mallory@')}\n`)),
      /it was altered/,
    ],
    [
      'with lines after its end',
      (path) => {
        const lines = linesIn(source);
        writeFileSync(path, gzipSync(`${[...lines, ...lines.slice(-1)].join('\n')}\n`));
      },
      /it contains trailing data/,
    ],
    [
      'without a line break at its end',
      (path) => writeFileSync(path, gzipSync(linesIn(source).join('\n'))),
      /its last line is incomplete/,
    ],
    [
      'with another value',
      (path) => {
        const lines = linesIn(source);
        const first = lines.findIndex((line) => line.startsWith('['));
        writeLines(path, lines.with(first, (lines[first] ?? '').replace('"1"', '"2"')));
      },
      /the backup has \d+ rows in accounts, but their contents differ/,
    ],
    [
      'without a row',
      (path) => {
        const lines = linesIn(source);
        const first = lines.findIndex((line) => line.startsWith('['));
        writeLines(
          path,
          lines.filter((_, index) => index !== first),
        );
      },
      /the backup has \d+ rows in accounts instead of \d+/,
    ],
    [
      'with a damaged byte',
      (path) => {
        const bytes = readFileSync(source);
        bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
        writeFileSync(path, bytes);
      },
      /not a complete backup/,
    ],
  ];
  for (const [name, make, says] of wrong) {
    test(`is rejected before anything is written: ${name}`, async () => {
      const path = join(folder.path, `wrong ${name}`);
      make(path);
      const target = join(folder.path, `target ${name}`);
      for (const args of [
        ['restore', path],
        ['restore', path, '--check'],
      ]) {
        assertRefused(await crm(args, { DATA_DIR: target }), says);
      }
      assert.ok(!existsSync(target));
    });
  }
});

test('backup while a service is using the embedded database', {
  skip: !drivers.includes('embedded'),
}, async () => {
  const { environment } = await storage(migratedStorage('embedded'));
  // Copies of other processes, one of which has been abandoned.
  const snapshots = join(environment.DATA_DIR ?? '', 'snapshots');
  for (const [name, hours] of [
    ['of-abandoned', 25],
    ['of-running', 23],
  ] as const) {
    mkdirSync(join(snapshots, name), { recursive: true });
    const time = new Date(Date.now() - hours * 3_600_000);
    utimesSync(join(snapshots, name), time, time);
  }
  // Requests wait while the files are copied.
  const service = await serve({ ...patient, ...environment });
  const path = join(folder.path, 'served.backup');
  let isOver = false;
  const statuses: number[] = [];
  const writing = (async () => {
    for (const key = String(service.printed.key); !isOver; ) {
      const body = { last_name: 'during' };
      statuses.push((await service.call('POST /api/v1/leads', { key, body })).status);
    }
  })();
  await until(() => statuses.length > 3, 'write before');
  const { rows } = await crmJson(['backup', path], environment);
  isOver = true;
  await writing;
  assert.ok(Number(rows) > 600);
  assert.ok(statuses.every((status) => status === 201));
  const during = rowsIn(path, 'leads').filter(({ last_name: name }) => name === 'during');
  assert.ok(during.length > 3 && during.length < statuses.length, `${during.length} of ${statuses.length}`);
  assertRefused(
    await crm(['move', '--to', join(folder.path, 'elsewhere')], environment),
    /a running service is using DATA_DIR\. Stop it first/,
  );
  assert.deepEqual(readdirSync(snapshots), ['of-running']);
  await service.kill();
});

test('a backup that lacks room for its copy of the embedded database says how much it needs, and leaves nothing behind', {
  skip: !existsSync('/dev/full'),
}, async () => {
  const dataFolder = join(folder.path, 'without-room');
  const cluster = join(dataFolder, 'pgdata');
  mkdirSync(join(cluster, 'base'), { recursive: true });
  writeFileSync(join(cluster, 'PG_VERSION'), Buffer.alloc(1024 * 1024));
  writeFileSync(join(cluster, 'base', '1'), Buffer.alloc(1024 * 1024 + 1));
  const copyTo = async (path: string) => {
    cpSync(cluster, path, { recursive: true });
    // A device without space. test/cli/causes.test.ts fills a disk, which is not possible on every machine.
    writeFileSync('/dev/full', 'one more byte');
  };
  await assert.rejects(
    withSnapshot({ copyTo }, { ...readConfig({}), dataFolder }, () => assert.fail('there is no copy')),
    {
      name: 'UserError',
      message: `the backup needs 3 MB in ${dataFolder} for a copy of the database, but not enough space is free. Free some space and try again`,
    },
  );
  assert.deepEqual(readdirSync(join(dataFolder, 'snapshots')), []);
  assert.deepEqual(readdirSync(dataFolder), ['pgdata', 'snapshots']);
});

describe('an interrupted backup', { skip: !drivers.includes('postgresql') }, () => {
  let source: Storage;
  before(async () => {
    source = await storage(migratedStorage('postgresql'));
  });

  test('leaves only a partial file when it is killed', async () => {
    const path = join(folder.path, 'killed');
    mkdirSync(path);
    await connected(String(source.environment.DATABASE_URL), async (client) => {
      await client.query('begin; lock table opportunities in access exclusive mode');
      const command = start(['backup', join(path, 'x.backup')], {
        ...patient,
        ...source.environment,
      });
      await until(() => readdirSync(path).length > 0, 'begin to write');
      await command.kill();
    });
    const [partial = '', ...more] = readdirSync(path);
    assert.match(partial, /^\.x\.backup\.\w+\.partial$/);
    assert.deepEqual(more, []);
    const copy = join(path, 'copy');
    copyFileSync(join(path, partial), copy);
    assertRefused(await crm(['restore', copy, '--check'], source.environment), /not a complete backup/);
  });

  test('a database is not moved while a node uses it', async () => {
    const { environment } = source;
    const target = join(folder.path, 'moved');
    await rows(
      environment,
      `insert into crm_nodes (name, migrations, views, sees_views, seen_at) values ('busy', '[]', '', true, now() + interval '1 hour')`,
    );
    assertRefused(
      await crm(['move', '--to', target], environment),
      /^crm: node busy \(.*\)\. Stop it first, because its writes during the move would be lost\.\n$/,
    );
    assert.ok(!existsSync(target));
    await rows(environment, 'delete from crm_nodes');
  });

  test('leaves no file when the disk is full', async (t) => {
    const disk = mountDisk(1);
    if (disk === undefined) return t.skip('not permitted: to mount a disk of its own');
    try {
      disk.fill();
      const path = join(disk.path, 'x.backup');
      assertRefused(
        await crm(['backup', path], source.environment),
        `${path} cannot be written: no space is left on the device`,
      );
      assert.deepEqual(readdirSync(disk.path), ['filler']);
      disk.free();
      const { verified, tables } = await crmJson(['backup', path, '--verify'], source.environment);
      assert.equal(verified, true);
      assert.equal((tables as Record<string, unknown>).leads, 0);
    } finally {
      disk.remove();
    }
  });
});
