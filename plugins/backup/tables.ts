import type { Generated } from 'kysely';
import { bigint, boolean, identity, now, table, text, time } from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
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

const backups = table('crm_backups', {
  id: identity,
  scheduled: boolean,
  started_at: now,
  ended_at: { ...time, nullable: true },
  file: text,
  bytes: { ...bigint, nullable: true },
  error: { ...text, nullable: true },
});

/** The backups that were made of this database, and those that failed. */
export const backupTables = [backups];
