import { sql } from 'kysely';
import { UserError } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** A backup that was made, is being made or failed. */
export interface BackupRun {
  readonly scheduled: boolean;
  readonly started_at: Date;
  readonly ended_at: Date | null;
  readonly file: string;
  readonly bytes: number | null;
  readonly error: string | null;
}

/** How long backups are remembered, in days. */
const keptDays = 90;

/** The last successful backup and the last finished one, each undefined if none exists. */
export async function lastBackups(
  tables: Tables,
): Promise<{ readonly made: BackupRun | undefined; readonly ended: BackupRun | undefined }> {
  const ended = tables
    .selectFrom('crm_backups')
    .select(['scheduled', 'started_at', 'ended_at', 'file', 'bytes', 'error'])
    .where('ended_at', 'is not', null)
    .orderBy('id', 'desc')
    .limit(1);
  const [made, last] = await Promise.all([
    ended.where('error', 'is', null).executeTakeFirst(),
    ended.executeTakeFirst(),
  ]);
  return { made: made && asRun(made), ended: last && asRun(last) };
}

/** What is wrong with the backups of an instance; undefined if nothing is. */
export type BackupFailure = 'failed' | 'late';

const hourMs = 3_600_000;

/** Whether the last backup failed, or one that config.yaml wants is late. */
export function problemOf(
  { made, ended }: Awaited<ReturnType<typeof lastBackups>>,
  { folder, every_hours: hours }: { readonly folder: string; readonly every_hours: number },
): BackupFailure | undefined {
  if (ended !== undefined && ended.error !== null) return 'failed';
  if (folder === '') return undefined;
  const isLate = made === undefined || made.started_at.getTime() < Date.now() - 2 * hours * hourMs;
  return isLate ? 'late' : undefined;
}

const asRun = ({
  bytes,
  ...run
}: Omit<BackupRun, 'bytes'> & { readonly bytes: string | null }): BackupRun => ({
  ...run,
  bytes: bytes === null ? null : Number(bytes),
});

/**
 * Makes a backup and remembers how it ended.
 * @param make makes it and returns its size in bytes
 * @throws what `make` throws
 */
export async function recordRun(
  tables: Tables,
  { file, scheduled }: Pick<BackupRun, 'file' | 'scheduled'>,
  make: () => Promise<number>,
): Promise<number> {
  await sql`delete from crm_backups where started_at < now() - ${sql.lit(keptDays)} * interval '1 day'`.execute(
    tables,
  );
  const { id } = await tables
    .insertInto('crm_backups')
    .values({ file, scheduled, ended_at: null, bytes: null, error: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  const ended = (outcome: { readonly bytes?: string; readonly error?: string }) =>
    tables
      .updateTable('crm_backups')
      .set({ ...outcome, ended_at: new Date() })
      .where('id', '=', id)
      .execute();
  let bytes: number;
  try {
    bytes = await make();
  } catch (cause) {
    // Where the database is what failed, nothing can be remembered; the caller says why.
    await ended({ error: reasonOf(cause) }).catch(() => {});
    throw cause;
  }
  await ended({ bytes: String(bytes) });
  return bytes;
}

/** Why a backup failed, in words that tell nothing of what it was to hold. */
export const reasonOf = (cause: unknown): string =>
  cause instanceof UserError
    ? cause.message
    : `it failed unexpectedly (${(cause as NodeJS.ErrnoException).code ?? (cause as Error).name})`;
