import type { Database } from '../../../engine/database/index.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { backupFailure, lastBackups } from './runs.ts';
import { type BackupSettings, retryMinutes } from './schedule.ts';

/**
 * Reports a backup that failed or is late. If no backups are scheduled, the instance may be backed up by
 * other means.
 */
export const backupCheck: DoctorCheck<{
  readonly database: Database;
  readonly settings: { readonly backups: BackupSettings };
}> = {
  name: 'backups',
  needs: ['database', 'settings'],
  run: async ({ database, settings: { backups } }) => {
    const runs = await lastBackups(tablesOf(database));
    const location = 'backups';
    const since =
      runs.lastSuccess === undefined
        ? 'no backup exists'
        : `the last one is from ${runs.lastSuccess.started_at.toISOString()}`;
    switch (backupFailure(runs, backups)) {
      case 'failed':
        return [
          {
            location,
            message: `the last backup failed: ${runs.lastRun?.error}; ${since}`,
            advice: `Fix the cause. A scheduled backup is retried within ${retryMinutes} minutes.`,
          },
        ];
      case 'late':
        return [
          {
            location,
            message: `config.yaml schedules a backup every ${backups.every_hours} hours, but ${since}`,
            advice: 'A running server creates backups. Start it with "crm serve", or check its log.',
          },
        ];
      default:
        return [];
    }
  },
};
