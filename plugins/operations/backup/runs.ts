import { sql } from 'kysely';
import { failureDetails } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A backup that succeeded, failed or is in progress. */
interface BackupRun {
  readonly scheduled: boolean;
  readonly started_at: Date;
  readonly ended_at: Date | null;
  readonly file: string;
  readonly bytes: number | null;
  readonly error: string | null;
}

/** How long records of backup runs are stored, in days. */
const retentionDays = 90;

/** Returns the last successful backup and the last finished backup, each undefined if missing. */
export async function lastBackups(
  tables: Tables,
): Promise<{ readonly lastSuccess: BackupRun | undefined; readonly lastRun: BackupRun | undefined }> {
  const finished = tables
    .selectFrom('crm_backups')
    .select(['scheduled', 'started_at', 'ended_at', 'file', 'bytes', 'error'])
    .where('ended_at', 'is not', null)
    .orderBy('id', 'desc')
    .limit(1);
  const [lastSuccess, lastRun] = await Promise.all([
    finished.where('error', 'is', null).executeTakeFirst(),
    finished.executeTakeFirst(),
  ]);
  return { lastSuccess: lastSuccess && toRun(lastSuccess), lastRun: lastRun && toRun(lastRun) };
}

/** Problem with an instance's backups. */
type BackupFailure = 'failed' | 'late';

const hourMs = 3_600_000;

/** Returns whether the last backup failed or a scheduled backup is late, or undefined if neither is the case. */
export function backupFailure(
  { lastSuccess, lastRun }: Awaited<ReturnType<typeof lastBackups>>,
  { folder, every_hours: hours }: { readonly folder: string; readonly every_hours: number },
): BackupFailure | undefined {
  if (lastRun !== undefined && lastRun.error !== null) return 'failed';
  if (folder === '') return undefined;
  const isLate =
    lastSuccess === undefined || lastSuccess.started_at.getTime() < Date.now() - 2 * hours * hourMs;
  return isLate ? 'late' : undefined;
}

const toRun = ({
  bytes,
  ...run
}: Omit<BackupRun, 'bytes'> & { readonly bytes: string | null }): BackupRun => ({
  ...run,
  bytes: bytes === null ? null : Number(bytes),
});

/**
 * Creates a backup and records its outcome.
 * @param create creates the backup and returns its size in bytes
 * @throws the error thrown by `create`
 */
export async function recordRun(
  tables: Tables,
  { file, scheduled }: Pick<BackupRun, 'file' | 'scheduled'>,
  create: () => Promise<number>,
): Promise<number> {
  await sql`delete from crm_backups where started_at < now() - ${sql.lit(retentionDays)} * interval '1 day'`.execute(
    tables,
  );
  const { id } = await tables
    .insertInto('crm_backups')
    .values({ file, scheduled, ended_at: null, bytes: null, error: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  const finish = (outcome: { readonly bytes?: string; readonly error?: string }) =>
    tables
      .updateTable('crm_backups')
      .set({ ...outcome, ended_at: new Date() })
      .where('id', '=', id)
      .execute();
  let bytes: number;
  try {
    bytes = await create();
  } catch (cause) {
    // If the database has failed, the outcome cannot be recorded. The caller reports the error.
    await finish({ error: reasonOf(cause) }).catch(() => {});
    throw cause;
  }
  await finish({ bytes: String(bytes) });
  return bytes;
}

/** Returns the reason a backup failed. It does not contain any data from the database. */
export const reasonOf = (cause: unknown): string =>
  cause instanceof UserError ? cause.message : `it failed unexpectedly (${failureDetails(cause).reason})`;
