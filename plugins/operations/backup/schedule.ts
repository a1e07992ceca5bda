import { readdirSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { createFolder, type Database } from '../../../engine/database/index.ts';
import { fileReason, UserError } from '../../../engine/errors.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { type BackupConfig, withDump } from './dump.ts';
import { linesOf, writeBackup } from './file.ts';
import type { BackupLines } from './format.ts';
import { reasonOf, recordRun } from './runs.ts';
import { withSnapshot } from './snapshot.ts';
import { walk } from './walk.ts';

/** When backups are made, and which are kept (config.yaml). */
export interface BackupSettings {
  /** Where they go; empty: none are made. */
  readonly folder: string;
  readonly every_hours: number;
  /** How many are kept at most, and for how many days; the last one in any case. */
  readonly keep: number;
  readonly keep_days: number;
}

/** What scheduled backups need of a running service. */
export interface ScheduleServices {
  readonly config: BackupConfig;
  readonly database: Database;
  readonly settings: { readonly current: { readonly backups: BackupSettings } };
}

/** How often an instance looks whether a backup is due, in milliseconds. */
const lookMs = 60_000;
/** When one that failed is tried again, in minutes. */
const retryMinutes = 15;
/** Any number that no other program on the same database is likely to use. */
const lock = 7_263_140_562n;

/** Makes backups as config.yaml says, by one process of one node. */
export function scheduleBackups(app: FastifyInstance, services: ScheduleServices): void {
  const stopping = new AbortController();
  // Before the one that awaits the work.
  app.addHook('preClose', async () => stopping.abort());
  app.background.every(app, 'backups', lookMs, async () => {
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

/** Creates a backup if it is due and no other process is creating it. @returns its file */
export async function backUpIfDue(
  { config, database, settings }: ScheduleServices,
  signal: AbortSignal,
): Promise<string | undefined> {
  const wanted = settings.current.backups;
  const tables = tablesOf(database);
  if (!(await isDue(tables, wanted))) return undefined;
  return withSnapshot(database, config, (snapshot) => {
    const work = () => make(tables, snapshot, config, wanted, signal);
    // Only this process uses the embedded database.
    if (snapshot.kind === 'embedded') return work();
    // The transaction holds the lock, so every end of it releases it.
    return transaction(snapshot, async (holding) => {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(holding);
      const { rows } = await sql<{
        locked: boolean;
      }>`select pg_try_advisory_xact_lock(${sql.lit(lock)}) as locked`.execute(holding);
      return rows[0]?.locked === true && (await isDue(tables, wanted)) ? work() : undefined;
    });
  });
}

/** Whether the last backup is long enough ago. One that never ended was interrupted, unless another node holds the lock. */
async function isDue(tables: Tables, { every_hours: hours }: BackupSettings): Promise<boolean> {
  const { rows } = await sql<{ due: boolean }>`
    select ended_at is null or started_at <= now() - case when error is null then ${sql.lit(hours)} * interval '1 hour'
      else least(${sql.lit(hours)} * interval '1 hour', ${sql.lit(retryMinutes)} * interval '1 minute') end as due
    from crm_backups where scheduled order by id desc limit 1`.execute(tables);
  return rows[0]?.due ?? true;
}

async function make(
  tables: Tables,
  snapshot: Database,
  config: BackupConfig,
  wanted: BackupSettings,
  signal: AbortSignal,
): Promise<string> {
  const folder = resolve(wanted.folder);
  const time = new Date().toISOString().replaceAll(':', '');
  const file = join(folder, `crm-${time}.backup`);
  await tables
    .updateTable('crm_backups')
    .set({ ended_at: new Date(), error: 'it was interrupted' })
    .where('ended_at', 'is', null)
    .where('scheduled', '=', true)
    .execute();
  await recordRun(tables, { file, scheduled: true }, async () => {
    prepare(folder);
    return writeBackup(
      file,
      (save) => withDump(snapshot, config, (lines) => save(until(lines, signal))),
      (path) => walk(until(linesOf(path), signal)),
    );
  });
  removeOld(folder, wanted);
  return file;
}

/** The names of scheduled backups, and of what was left of them by a process that ended. */
const [made, left] = [/^crm-[\d-]+T[\d.]+Z\.backup$/, /^\.crm-[\d-]+T[\d.]+Z\.backup\.\w+\.partial$/];

/** Makes the folder, and removes what interrupted backups left in it. @throws UserError if that cannot be */
function prepare(folder: string): void {
  try {
    createFolder(folder, 0o700);
    for (const name of readdirSync(folder)) if (left.test(name)) rmSync(join(folder, name));
  } catch (cause) {
    throw new UserError(`${folder} cannot be used: ${fileReason(cause)}`, { cause });
  }
}

/** Removes backups that are too many or too old; never the last one, and nothing else. */
function removeOld(folder: string, { keep, keep_days: days }: BackupSettings): void {
  const oldest = Date.now() - days * 86_400_000;
  const names = readdirSync(folder).filter((name) => made.test(name));
  const [, ...others] = names.sort().reverse();
  for (const [index, name] of others.entries()) {
    const path = join(folder, name);
    if (index + 1 >= keep || statSync(path).mtimeMs < oldest) rmSync(path, { force: true });
  }
}

/** Lines until a signal says to stop. */
async function* until(lines: BackupLines, signal: AbortSignal): BackupLines {
  for await (const batch of lines) {
    signal.throwIfAborted();
    yield batch;
  }
}
