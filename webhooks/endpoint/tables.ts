import { defineTable, textColumn, timestampColumn } from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_secret_uses: { endpoint: string; fingerprint: string; last_used_at: Date };
  }
}

const secretUses = defineTable('crm_secret_uses', {
  endpoint: { ...textColumn, primary: true },
  fingerprint: { ...textColumn, primary: true },
  last_used_at: timestampColumn,
});

/** Table of the last use of each partner secret. */
export const secretUseTables = [secretUses];
