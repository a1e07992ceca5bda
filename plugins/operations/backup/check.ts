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
      last.made === undefined ? 'there is none' : `the last one is of ${last.made.started_at.toISOString()}`;
    switch (problemOf(last, backups)) {
      case 'failed':
        return [
          {
            place,
            problem: `the last backup failed: ${last.ended?.error}; ${since}`,
            advice: 'Mend that; a scheduled one is tried again within a quarter of an hour.',
          },
        ];
      case 'late':
        return [
          {
            place,
            problem: `config.yaml wants a backup every ${backups.every_hours} hours, and ${since}`,
            advice: 'A server that runs makes them: start it with "crm serve", or see its log.',
          },
        ];
      default:
        return [];
    }
  },
};
