// Messages about machine failures state the problem with the data folder and its solution.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { inherited } from '../support/command-process.ts';
import { mountDisk } from '../support/disk.ts';
import { temporaryFolder } from '../support/instance.ts';
import {
  apart,
  assertRefused,
  commandLine,
  crm,
  migrated,
  migratedStorage,
  type Options,
  project,
} from '../support/process.ts';
import { copyFolder } from '../support/templates.ts';

test('an invalid lock file', async () => {
  const temporary = temporaryFolder();
  const folder = join(temporary.path, 'data');
  mkdirSync(join(folder, 'lock'), { recursive: true });
  const begin = `the data folder ${folder} cannot be used: `;
  assertRefused(await crm(['migrate'], { DATA_DIR: folder }), `${begin}its file "lock" is a folder`);
  rmSync(join(folder, 'lock'), { recursive: true });
  writeFileSync(join(folder, 'lock'), 'no database '.repeat(100));
  const foreign = await crm(['migrate'], { DATA_DIR: folder });
  assertRefused(foreign, `${begin}its file "lock" was not created by the service; move it away`);
  temporary.remove();
});

test('damaged files', async () => {
  const opened = (what: string) => (folder: string) =>
    `the data folder ${folder} cannot be opened: its files are ${what}. Move the folder away and restore a backup`;
  const damages: readonly (readonly [
    damage: (cluster: string) => void,
    message: (folder: string) => string,
  ])[] = [
    [(cluster) => writeFileSync(join(cluster, 'global/pg_control'), 'damaged'), opened('damaged')],
    // The system catalog pg_class.
    [
      (cluster) => rmSync(join(cluster, 'base/5/1259')),
      opened('damaged or from another version of PostgreSQL'),
    ],
    [
      (cluster) => writeFileSync(join(cluster, 'PG_VERSION'), '9\n'),
      opened('damaged or from another version of PostgreSQL'),
    ],
    [
      (cluster) => rmSync(join(cluster, 'PG_VERSION')),
      (folder) => `${join(folder, 'pgdata')} is not a database: move it away or restore it`,
    ],
  ];
  await Promise.all(
    damages.map(async ([damage, message]) => {
      const storage = await migratedStorage('embedded');
      damage(join(storage.folder, 'pgdata'));
      assertRefused(await crm(['migrate'], storage.environment, apart), message(storage.folder));
      await storage.remove();
    }),
  );
});

test('a full disk', async (t) => {
  // A database takes about 41 MB.
  const disk = mountDisk(64);
  if (disk === undefined) return t.skip('not permitted: to mount a disk of its own');
  t.after(disk.remove);
  const data = join(disk.path, 'data');
  await copyFolder(migrated, data);
  const start = (folder: string, options?: Options) =>
    crm(['serve'], { DATA_DIR: folder, PORT: '0', LOG_LEVEL: 'silent' }, options);
  const full = 'no space is left on the device';

  const first = join(disk.path, 'first');
  assertRefused(await start(first, apart), `the data folder ${first} cannot be opened: ${full}`);
  rmSync(first, { recursive: true });

  disk.fill();
  assertRefused(await start(data), `the data folder ${data} cannot be used: ${full}`);
  const config = readConfig({ DATA_DIR: join(disk.path, 'secrets') });
  assert.throws(() => instanceSecrets(config), {
    name: 'UserError',
    message: `cannot store a secret in ${config.dataFolder} (${full}). Set AUTH_SECRETS or DATA_DIR.`,
  });
  disk.free();
  assert.ok(instanceSecrets(config), 'the first attempt left no files');

  /** Fills the disk, leaving the given number of bytes free. */
  const fillBut = (bytes: number) => {
    const spare = join(disk.path, 'spare');
    writeFileSync(spare, Buffer.alloc(bytes));
    disk.fill();
    rmSync(spare);
  };
  // Enough for the lock but not for PostgreSQL.
  fillBut(4096);
  assertRefused(await start(data, apart), `the data folder ${data} cannot be opened: ${full}`);
  disk.free();
  // Enough to start but not for the demo organization.
  fillBut(128 * 1024);
  assertRefused(
    await start(data, apart),
    /^crm: the database disk is full \(could not extend file \S+: No space left on device\)\. Free some space and try again\.\n$/,
  );
  disk.free();
  // Enough for everything except a backup's copy of the database.
  fillBut(8 * 1024 * 1024);
  const out = temporaryFolder();
  t.after(out.remove);
  assertRefused(
    await crm(['backup', join(out.path, 'x.backup')], { DATA_DIR: data }),
    new RegExp(
      `^crm: the backup needs \\d\\d MB in ${data} for a copy of the database, but not enough space is free\\. Free some space and try again\n$`,
    ),
  );
  assert.deepEqual([readdirSync(join(data, 'snapshots')), readdirSync(out.path)], [[], []]);
  disk.free();
  assert.equal((await crm(['migrate'], { DATA_DIR: data })).stderr, '');
});

test('truncated output is not a failure', async () => {
  for (const args of [['--help'], ['completion', 'bash'], ['check', '--json'], ['openapi']]) {
    const child = spawn(process.execPath, [...commandLine, ...args], {
      cwd: project,
      env: inherited(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const stderr = text(child.stderr);
    // Close the pipe before the command writes.
    child.stdout.destroy();
    const [code] = await once(child, 'exit');
    assert.deepEqual([code, await stderr], [0, ''], args.join(' '));
  }
});
