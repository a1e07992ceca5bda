import type { Generated } from 'kysely';
import {
  bigintColumn,
  booleanColumn,
  defineTable,
  identity,
  now,
  textColumn,
  timestampColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_backups: {
      id: Generated<string>;
      /** Whether the backup was started by the schedule in config.yaml rather than by a command. */
      scheduled: boolean;
      started_at: Generated<Date>;
      /** Null while the backup is in progress. */
      ended_at: Date | null;
      file: string;
      /** Null unless the backup succeeded. */
      bytes: string | null;
      /** The reason the backup failed, or null if it succeeded or is in progress. */
      error: string | null;
    };
  }
}

const backups = defineTable('crm_backups', {
  id: identity,
  scheduled: booleanColumn,
  started_at: now,
  ended_at: { ...timestampColumn, nullable: true },
  file: textColumn,
  bytes: { ...bigintColumn, nullable: true },
  error: { ...textColumn, nullable: true },
});

/** Table of this database's backups, including failed ones. */
export const backupTables = [backups];
