import type { Database } from '../../../engine/database/index.ts';
import type { DoctorCheck } from '../../../engine/modules/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { lastBackups, problemOf } from './runs.ts';
import type { BackupSettings } from './schedule.ts';

/** A backup that failed or is late. Where none is wanted, they may well be made otherwise. */
export const backupCheck: DoctorCheck<{
  readonly database: Database;
  readonly settings: { readonly backups: BackupSettings };
}> = {
  name: 'backups',
  needs: ['database', 'settings'],
  run: async ({ database, settings: { backups } }) => {
    const last = await lastBackups(tablesOf(database));
    const place = 'backups';
    const since =
      last.made === undefined
        ? 'no backup exists'
        : `the last one is from ${last.made.started_at.toISOString()}`;
    switch (problemOf(last, backups)) {
      case 'failed':
        return [
          {
            place,
            problem: `the last backup failed: ${last.ended?.error}; ${since}`,
            advice: 'Fix the cause. A scheduled backup is retried within 15 minutes.',
          },
        ];
      case 'late':
        return [
          {
            place,
            problem: `config.yaml schedules a backup every ${backups.every_hours} hours, but ${since}`,
            advice: 'A running server creates backups. Start it with "crm serve", or check its log.',
          },
        ];
      default:
        return [];
    }
  },
};
