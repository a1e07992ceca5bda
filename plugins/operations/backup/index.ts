// Backup: backs up the whole instance to a file, restores it, and moves it between databases.
// May import engine, secrets, change-log, identity, api-keys, members, admin-ui/shell.

import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { backupCheck } from './check.ts';
import { backupHome } from './home.ts';
import { backupMetrics } from './metrics.ts';
import type { RestoreConfig } from './restore.ts';
import { type BackupSettings, type ScheduleServices, scheduleBackups } from './schedule.ts';
import { backupTables } from './tables.ts';

export type { BackupSettings } from './schedule.ts';

interface CommandServices {
  readonly config: RestoreConfig;
  readonly database: Database;
}

interface CheckServices {
  readonly database: Database;
  readonly settings: { readonly backups: BackupSettings };
}

/** Backs up the whole instance to a single file, with a command or on a schedule. */
export const backupModule: Module<ScheduleServices, CommandServices, CheckServices> = {
  name: 'backup',
  tables: backupTables,
  register: scheduleBackups,
  pages: backupHome,
  metrics: (services) => [backupMetrics(services)],
  commands: async (line) => (await import('./commands.ts')).backupCommands(line),
  checks: [backupCheck],
};
