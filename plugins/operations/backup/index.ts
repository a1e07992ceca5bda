// Backup: the whole instance as one file, back again, and moved from one kind of database to the other.
// May import engine, secrets, ledger, identity, api-keys, members, screens.

export { backupModule } from './module.ts';
export { type BackupRun, lastBackups } from './runs.ts';
export type { BackupSettings } from './schedule.ts';
