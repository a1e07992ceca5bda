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
      /** Whether config.yaml asked for it, and not a command. */
      scheduled: boolean;
      started_at: Generated<Date>;
      /** Null while it is being made. */
      ended_at: Date | null;
      file: string;
      /** Null unless it was made. */
      bytes: string | null;
      /** Why it was not made; null if it was, or is being made. */
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

/** The backups that were made of this database, and those that failed. */
export const backupTables = [backups];
