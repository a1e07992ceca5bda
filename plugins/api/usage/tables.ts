import { defineTable, now, tenant, tenantLink, textColumn } from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_name_uses: {
      organization_id: string;
      key_id: string;
      resource: string;
      /** Empty for the resource itself. */
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
    // A few rows for each key, and asked of all organizations at once.
    placement: 'everywhere',
    resourceColumns: ['resource'],
  },
);

/** When each API key last named a resource or a field, to the day. */
export const usageTables = [uses];
