import { readdirSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { createFolder, type Database } from '../../../engine/database/index.ts';
import { fileReason, UserError } from '../../../engine/errors.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { type BackupConfig, withDump, withSnapshot } from './dump.ts';
import { type BackupLines, linesOf, writeBackup } from './file.ts';
import { reasonOf, recordRun } from './runs.ts';
import { verifyBackup } from './walk.ts';

/** Backup schedule and retention (`backups` in config.yaml). */
export interface BackupSettings {
  /** Folder for scheduled backups. If it is an empty string, no backups are scheduled. */
  readonly folder: string;
  readonly every_hours: number;
  /** Maximum number of backups, and their maximum age in days. The last backup is always kept. */
  readonly keep: number;
  readonly keep_days: number;
}

/** Services required for scheduled backups. */
export interface ScheduleServices {
  readonly config: BackupConfig;
  readonly database: Database;
  readonly settings: { readonly current: { readonly backups: BackupSettings } };
}

/** Interval at which to check whether a backup is due, in milliseconds. */
const checkMs = 60_000;
/** Delay before a failed backup is retried, in minutes. */
export const retryMinutes = 15;
/** Advisory lock key. Other programs are unlikely to use it in the same database. */
const lockKey = 7_263_140_562n;

/** Creates backups on the schedule in config.yaml. Only one process on one node creates each backup. */
export function scheduleBackups(app: FastifyInstance, services: ScheduleServices): void {
  const stopping = new AbortController();
  // This hook must be registered before the hook that awaits background work.
  app.addHook('preClose', async () => stopping.abort());
  app.background.every(app, 'backups', checkMs, async () => {
    const { folder } = services.settings.current.backups;
    if (folder === '') return;
    try {
      const file = await backUpIfDue(services, stopping.signal);
      if (file !== undefined) app.log.info({ file }, 'backup created');
    } catch (cause) {
      if (stopping.signal.aborted) return;
      app.log.error({ folder, reason: reasonOf(cause) }, 'backup failed; it will be retried');
    }
  });
}

/**
 * Creates a backup if it is due and no other process is creating it. @returns the path of the backup file, or
 * undefined if no backup was created
 */
export async function backUpIfDue(
  { config, database, settings }: ScheduleServices,
  signal: AbortSignal,
): Promise<string | undefined> {
  const backups = settings.current.backups;
  const tables = tablesOf(database);
  if (!(await isDue(tables, backups))) return undefined;
  return withSnapshot(database, config, (snapshot) => {
    const work = () => createBackup(tables, snapshot, config, backups, signal);
    // No lock is needed, because only this process uses the embedded database.
    if (snapshot.kind === 'embedded') return work();
    // The transaction holds the lock, so the lock is released no matter how the transaction ends.
    return transaction(snapshot, async (lockTables) => {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(lockTables);
      const { rows } = await sql<{
        locked: boolean;
      }>`select pg_try_advisory_xact_lock(${sql.lit(lockKey)}) as locked`.execute(lockTables);
      return rows[0]?.locked === true && (await isDue(tables, backups)) ? work() : undefined;
    });
  });
}

/** Reports whether a backup is due. An unfinished run counts as interrupted, unless another node holds the lock. */
async function isDue(tables: Tables, { every_hours: hours }: BackupSettings): Promise<boolean> {
  const { rows } = await sql<{ due: boolean }>`
    select ended_at is null or started_at <= now() - case when error is null then ${sql.lit(hours)} * interval '1 hour'
      else least(${sql.lit(hours)} * interval '1 hour', ${sql.lit(retryMinutes)} * interval '1 minute') end as due
    from crm_backups where scheduled order by id desc limit 1`.execute(tables);
  return rows[0]?.due ?? true;
}

async function createBackup(
  tables: Tables,
  snapshot: Database,
  config: BackupConfig,
  backups: BackupSettings,
  signal: AbortSignal,
): Promise<string> {
  const folder = resolve(backups.folder);
  const time = new Date().toISOString().replaceAll(':', '');
  const file = join(folder, `crm-${time}.backup`);
  await tables
    .updateTable('crm_backups')
    .set({ ended_at: new Date(), error: 'it was interrupted' })
    .where('ended_at', 'is', null)
    .where('scheduled', '=', true)
    .execute();
  await recordRun(tables, { file, scheduled: true }, async () => {
    prepareFolder(folder);
    return writeBackup(
      file,
      (save) => withDump(snapshot, config, (lines) => save(abortable(lines, signal))),
      (path) => verifyBackup(abortable(linesOf(path), signal)),
    );
  });
  removeOldBackups(folder, backups);
  return file;
}

/** File names of scheduled backups, and of incomplete files left by interrupted backups. */
const [backupName, incompleteName] = [
  /^crm-[\d-]+T[\d.]+Z\.backup$/,
  /^\.crm-[\d-]+T[\d.]+Z\.backup\.\w+\.partial$/,
];

/**
 * Creates the folder, and deletes incomplete files left by interrupted backups.
 * @throws UserError if the folder cannot be used
 */
function prepareFolder(folder: string): void {
  try {
    createFolder(folder, 0o700);
    for (const name of readdirSync(folder)) if (incompleteName.test(name)) rmSync(join(folder, name));
  } catch (cause) {
    throw new UserError(`${folder} cannot be used: ${fileReason(cause)}`, { cause });
  }
}

/** Deletes backups that exceed the maximum number or age, except the last one. Other files are not affected. */
function removeOldBackups(folder: string, { keep, keep_days: days }: BackupSettings): void {
  const oldestTime = Date.now() - days * 86_400_000;
  const names = readdirSync(folder).filter((name) => backupName.test(name));
  const [, ...others] = names.sort().reverse();
  for (const [index, name] of others.entries()) {
    const path = join(folder, name);
    if (index + 1 >= keep || statSync(path).mtimeMs < oldestTime) rmSync(path, { force: true });
  }
}

/** Yields lines until a signal is aborted. @throws the signal's reason */
async function* abortable(lines: BackupLines, signal: AbortSignal): BackupLines {
  for await (const batch of lines) {
    signal.throwIfAborted();
    yield batch;
  }
}
