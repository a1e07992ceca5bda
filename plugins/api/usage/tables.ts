import { defineTable, now, tenant, tenantLink, textColumn } from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_name_uses: {
      organization_id: string;
      key_id: string;
      resource: string;
      /** Field name, or an empty string for the resource itself. */
      name: string;
      last_used_at: Date;
    };
  }
}

const uses = defineTable(
  'crm_name_uses',
  {
    ...tenant(),
    ...tenantLink('crm_name_uses', 'key', 'crm_api_keys', { primary: true, deleteRule: 'cascade' }),
    resource: { ...textColumn, primary: true },
    name: { ...textColumn, primary: true },
    last_used_at: now,
  },
  {
    indexes: [{ name: 'crm_name_uses_last_used_at', properties: ['last_used_at'] }],
    // Replicated, because there are few rows per key and queries span all organizations.
    placement: 'everywhere',
    resourceColumns: ['resource'],
  },
);

/** The table with the day on which each API key last used a resource or field. */
export const usageTables = [uses];
