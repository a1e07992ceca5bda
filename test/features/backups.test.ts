// Scheduled backups: created while the service is running, one at a time, deleted by count and age. A failure is
// stored and displayed.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { readConfig } from '../../app/config.ts';
import { openInstance } from '../../app/instance.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { backupCheck } from '../../plugins/operations/backup/check.ts';
import { backupMetrics } from '../../plugins/operations/backup/metrics.ts';
import { removeTimeouts } from '../../plugins/operations/backup/rows.ts';
import { lastBackups } from '../../plugins/operations/backup/runs.ts';
import { type BackupSettings, backUpIfDue } from '../../plugins/operations/backup/schedule.ts';
import { rowsIn, type Served, served } from '../support/backups.ts';
import { readable, signIn } from '../support/forms.ts';
import { drivers, temporaryFolder } from '../support/instance.ts';
import { migratedStorage, type Storage, until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

for (const driver of drivers) {
  describe(`scheduled backups (${driver})`, () => {
    const folder = temporaryFolder();
    const backups = join(folder.path, 'backups');
    const settingsFile = join(folder.path, 'config.yaml');
    let storage: Storage;
    let instance: Served;
    let key = '';
    const signal = new AbortController().signal;
    const backupFiles = () => readdirSync(backups).filter((name) => name.endsWith('.backup'));
    const make = (
      more: Partial<BackupSettings> = {},
      environment: Partial<Served> = instance,
      stop: AbortSignal = signal,
    ) =>
      backUpIfDue(
        {
          config: instance.config,
          database: instance.database,
          ...environment,
          settings: {
            current: { backups: { folder: backups, every_hours: 24, keep: 2, keep_days: 30, ...more } },
          },
        },
        stop,
      );
    const forget = () => tablesOf(instance.database).deleteFrom('crm_backups').execute();

    before(async () => {
      writeFileSync(settingsFile, `backups: { folder: ${backups} }\n`);
      storage = await migratedStorage(driver);
      instance = await served(storage, { CRM_CONFIG: settingsFile });
      key = String(instance.demo?.key);
    });
    after(async () => {
      await instance.close();
      await storage.remove();
      folder.remove();
    });

    test('are enabled by one line of config.yaml', async () => {
      const tables = tablesOf(instance.database);
      await until(async () => (await lastBackups(tables)).lastRun !== undefined, 'the first backup');
      const { lastSuccess: first, lastRun: latest } = await lastBackups(tables);
      assert.deepEqual(first, latest);
      assert.equal(latest?.error, null);
      assert.deepEqual([join(backups, backupFiles()[0] ?? '')], [latest.file]);
      assert.equal(readFileSync(latest.file).length, latest.bytes);
      assert.equal(await make(), undefined, 'no second backup before the interval ends');
      const told = new Map<string, number>();
      const settings = { current: { backups: { folder: backups, every_hours: 24, keep: 2, keep_days: 30 } } };
      await backupMetrics({ database: instance.database, settings }).read((name, value) =>
        told.set(name, value),
      );
      assert.deepEqual(Object.fromEntries(told), {
        crm_backup_interval_seconds: 86_400,
        crm_backup_last_success_timestamp_seconds: latest.started_at.getTime() / 1000,
        crm_backup_size_bytes: latest.bytes,
      });
    });

    test('allow concurrent writes and are created by only one of two nodes', async () => {
      const total: number[] = [];
      // On a busy machine, the backup can be faster than a few writes.
      await until(async () => {
        await forget();
        let isOver = false;
        const during: number[] = [];
        const writing = (async () => {
          while (!isOver) {
            const body = { last_name: 'during' };
            const { status } = await instance.call('POST /api/v1/leads', { key, body });
            during.push(status);
          }
        })();
        const both = driver === 'postgresql' ? [make(), make()] : [make()];
        const files = (await Promise.all(both)).filter((file) => file !== undefined);
        isOver = true;
        await writing;
        total.push(...during);
        assert.equal(files.length, 1);
        assert.ok(during.every((status) => status === 201));
        const leads = rowsIn(files[0] ?? '', 'leads').filter(({ last_name: name }) => name === 'during');
        return during.length > 3 && leads.length < total.length;
      }, 'write during a backup');
    });

    // Files, failures and due times are the same on both drivers.
    if (driver !== drivers.at(-1)) return;

    describe('are due', () => {
      let own: Storage;
      let opened: Awaited<ReturnType<typeof openInstance>>;
      before(async () => {
        own = await migratedStorage(driver);
        // Without a service, no other process creates a backup.
        opened = await openInstance(readConfig({ ...patient, ...own.environment }));
      });
      after(async () => {
        await opened.database.close();
        await own.remove();
      });

      test('backups read in a transaction without timeouts, whose values have the same text on every server', async () => {
        const settings = {
          ...{ statement_timeout: '0', idle_in_transaction_session_timeout: '0', TimeZone: 'UTC' },
          ...{ DateStyle: 'ISO', IntervalStyle: 'postgres', bytea_output: 'hex', extra_float_digits: '1' },
        };
        await transaction(opened.database, async (tables) => {
          for (const setting of [
            "time zone 'Europe/Berlin'",
            "datestyle = 'German'",
            'statement_timeout = 1000',
          ])
            await sql.raw(`set local ${setting}`).execute(tables);
          await removeTimeouts(tables);
          for (const [name, value] of Object.entries(settings)) {
            const { rows } = await sql<{ value: string }>`select current_setting(${name}) as value`.execute(
              tables,
            );
            assert.equal(rows[0]?.value.split(',')[0], value, name);
          }
        });
      });

      const interrupted = { ended_at: null };
      const failed = { error: 'it failed' };
      const manual = { scheduled: false };
      for (const [name, runs, isDue] of [
        ['before the first run', [], true],
        ['less than 24 hours after a success', [['23 hours', {}]], false],
        ['more than 24 hours after a success', [['25 hours', {}]], true],
        ['less than 15 minutes after a failure', [['10 minutes', failed]], false],
        ['more than 15 minutes after a failure', [['16 minutes', failed]], true],
        ['immediately after an interruption', [['0 minutes', interrupted]], true],
        [
          'immediately after an interruption that follows a success',
          [
            ['1 hour', {}],
            ['0 minutes', interrupted],
          ],
          true,
        ],
        [
          'only 24 hours after a success that follows an interruption',
          [
            ['2 hours', interrupted],
            ['1 hour', {}],
          ],
          false,
        ],
        ['regardless of a manual backup', [['0 minutes', manual]], true],
        [
          'regardless of a manual backup that is in progress',
          [
            ['1 hour', {}],
            ['0 minutes', { ...manual, ...interrupted }],
          ],
          false,
        ],
        [
          'more than 24 hours after a success, during a manual backup',
          [
            ['25 hours', {}],
            ['0 minutes', { ...manual, ...interrupted }],
          ],
          true,
        ],
      ] as const) {
        test(name, async () => {
          const tables = tablesOf(opened.database);
          await tables.deleteFrom('crm_backups').execute();
          for (const [age, run] of runs) {
            const started_at = sql<Date>`now() - ${age}::text::interval`;
            await tables
              .insertInto('crm_backups')
              .values({
                file: 'a.backup',
                scheduled: true,
                started_at,
                ended_at: started_at,
                bytes: '1',
                error: null,
                ...run,
              })
              .execute();
          }
          assert.equal((await make({ folder: join(folder.path, 'due') }, opened)) !== undefined, isDue);
          const unfinished = await tables
            .selectFrom('crm_backups')
            .select('scheduled')
            .where('ended_at', 'is', null)
            .execute();
          assert.ok(!isDue || unfinished.every(({ scheduled }) => !scheduled), 'an interruption is recorded');
          assert.equal(
            unfinished.filter(({ scheduled }) => !scheduled).length,
            runs.filter(([, run]) => 'scheduled' in run && 'ended_at' in run).length,
            'a manual backup continues',
          );
        });
      }
    });

    test('are deleted by count and age, without touching other files', async () => {
      const [last = '', ...others] = backupFiles().sort().reverse();
      for (const name of others) rmSync(join(backups, name));
      const names = ['2026-01-01T000000Z', '2026-01-02T000000Z', '2026-01-03T000000Z'].map(
        (time) => `crm-${time}.backup`,
      );
      for (const name of names) writeFileSync(join(backups, name), '');
      for (const name of ['notes.txt', 'mine.backup']) writeFileSync(join(backups, name), '');
      writeFileSync(join(backups, '.crm-2026-01-01T000000Z.backup.12ab.partial'), '');
      await forget();
      const tables = tablesOf(instance.database);
      const run = (file: string, days: number) => ({
        ...{ file, scheduled: false, ended_at: new Date(), bytes: '1', error: null },
        started_at: new Date(Date.now() - days * 86_400_000),
      });
      await tables
        .insertInto('crm_backups')
        .values([run('old', 91), run('recent', 89)])
        .execute();
      const newest = await make({ keep: 3 });
      const runs = await tables.selectFrom('crm_backups').select('file').orderBy('id').execute();
      assert.deepEqual(
        runs.map(({ file }) => file),
        ['recent', newest],
        'runs are kept for 90 days',
      );
      assert.deepEqual(
        readdirSync(backups).sort(),
        [names[2], last, newest?.slice(backups.length + 1), 'mine.backup', 'notes.txt'].sort(),
      );
      const long = new Date(Date.now() - 3 * 86_400_000);
      for (const name of backupFiles()) utimesSync(join(backups, name), long, long);
      await forget();
      await make({ keep: 10, keep_days: 2 });
      assert.equal(
        backupFiles().filter((name) => name.startsWith('crm-')).length,
        1,
        'except for the last one',
      );
    });

    test('end without a file when the service stops', async () => {
      await forget();
      const files = readdirSync(backups).sort();
      const stopped = make({}, instance, AbortSignal.abort());
      await assert.rejects(stopped, { name: 'AbortError' });
      assert.deepEqual(readdirSync(backups).sort(), files);
      const { lastRun, lastSuccess } = await lastBackups(tablesOf(instance.database));
      assert.match(lastRun?.error ?? '', /^it failed unexpectedly/);
      assert.equal(lastSuccess, undefined);
    });

    test('store and display a failure, and do not count it as a backup', async () => {
      await forget();
      const invalidFolder = join(settingsFile, 'folder');
      await assert.rejects(
        make({ folder: invalidFolder }),
        /cannot be used: a component of its path is not a folder/,
      );
      const { lastRun: latest, lastSuccess: whole } = await lastBackups(tablesOf(instance.database));
      assert.match(latest?.error ?? '', /a component of its path is not a folder/);
      assert.equal(whole, undefined);
      const settings = { backups: { folder: backups, every_hours: 24, keep: 2, keep_days: 30 } };
      const findings = async ({ backups } = settings) =>
        (await backupCheck.run({ database: instance.database, settings: { backups } })).map(
          ({ message }) => message,
        );
      assert.match(
        (await findings()).join(),
        /^the last backup failed: .* is not a folder; no backup exists$/,
      );
      const { email, password } = instance.demo ?? assert.fail();
      const admin = await signIn(instance, { email, password });
      const home = async () =>
        /<li class="(\w+)"><p>(?:(?!<\/p>).)*\bbackup(?:(?!<\/p>).)*<\/p>/i
          .exec(readable((await admin.get('/setup/o/demo')).text))
          ?.slice(0, 2)
          .reverse()
          .join(' ') ?? '';
      assert.match(await home(), /^bad .*The backup started at 20.* failed\. No backup exists\./);
      assert.equal(await make(), undefined, 'the retry is delayed');
      await tablesOf(instance.database)
        .updateTable('crm_backups')
        .set({ started_at: new Date(Date.now() - 16 * 60_000) })
        .execute();
      assert.notEqual(await make(), undefined);
      assert.match(await home(), /^good .*Last backup: 20/);
      assert.deepEqual(await findings(), []);
      const age = (hours: number) =>
        tablesOf(instance.database)
          .updateTable('crm_backups')
          .set({ started_at: new Date(Date.now() - hours * 3_600_000) })
          .execute();
      await age(47);
      assert.deepEqual(await findings(), []);
      await age(49);
      assert.match((await findings()).join(), /every 24 hours, but the last one is from 20/);
      assert.match(await home(), /^warn .*Last backup: 20/);
      const unscheduled = { backups: { ...settings.backups, folder: '' } };
      assert.deepEqual(await findings(unscheduled), [], 'without a schedule, no backup is late');
      await forget();
      assert.deepEqual(await findings(), [
        'config.yaml schedules a backup every 24 hours, but no backup exists',
      ]);
      assert.match(await home(), /^warn .*No backup exists\./);
      assert.deepEqual(await findings(unscheduled), []);
    });
  });
}
