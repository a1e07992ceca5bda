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

/** Returns metrics for the last successful backup, whether scheduled or not, and for the configured interval. */
export const backupMetrics = ({
  database,
  settings,
}: Pick<ScheduleServices, 'database' | 'settings'>): Metrics => ({
  families,
  ofInstance: true,
  read: async (record) => {
    const { folder, every_hours: hours } = settings.current.backups;
    record('crm_backup_interval_seconds', folder === '' ? 0 : hours * 3600);
    const { lastSuccess } = await lastBackups(tablesOf(database));
    record('crm_backup_last_success_timestamp_seconds', (lastSuccess?.started_at.getTime() ?? 0) / 1000);
    record('crm_backup_size_bytes', lastSuccess?.bytes ?? 0);
  },
});
