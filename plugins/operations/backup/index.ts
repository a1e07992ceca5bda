// Backup: backs up the whole instance to a file, restores it, and moves it between databases.
// May import engine, secrets, change-log, identity, api-keys, members, admin-ui/shell.

export { backupModule } from './module.ts';
export type { BackupSettings } from './schedule.ts';
