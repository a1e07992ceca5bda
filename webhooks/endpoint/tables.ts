import { table, text, time } from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
  interface TableRows {
    crm_secret_uses: { endpoint: string; fingerprint: string; last_used_at: Date };
  }
}

const secretUses = table('crm_secret_uses', {
  endpoint: { ...text, primary: true },
  fingerprint: { ...text, primary: true },
  last_used_at: time,
});

/** When a partner's secret was last used. */
export const secretUseTables = [secretUses];
