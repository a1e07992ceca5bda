import type { Metrics } from '../../../engine/modules/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { lastBackups } from './runs.ts';
import type { ScheduleServices } from './schedule.ts';

const families = {
  crm_backup_last_success_timestamp_seconds: {
    type: 'gauge',
    help: 'Start time of the last successful backup, in seconds since 1970, or 0 if none exists.',
  },
  crm_backup_size_bytes: { type: 'gauge', help: 'Size of the last successful backup, or 0 if none exists.' },
  crm_backup_interval_seconds: {
    type: 'gauge',
    help: 'Backup interval configured in config.yaml, or 0 if backups are disabled.',
  },
} as const satisfies Metrics['families'];

/** The last backup, made by a command or as config.yaml says, and how often one is wanted. */
export const backupMetrics = ({
  database,
  settings,
}: Pick<ScheduleServices, 'database' | 'settings'>): Metrics => ({
  families,
  ofInstance: true,
  read: async (tell) => {
    const { folder, every_hours: hours } = settings.current.backups;
    tell('crm_backup_interval_seconds', folder === '' ? 0 : hours * 3600);
    const { made } = await lastBackups(tablesOf(database));
    tell('crm_backup_last_success_timestamp_seconds', (made?.started_at.getTime() ?? 0) / 1000);
    tell('crm_backup_size_bytes', made?.bytes ?? 0);
  },
});
