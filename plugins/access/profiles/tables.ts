import type { Generated } from 'kysely';
import { defineTable, identity, now, tenant, tenantLink, textColumn } from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_profiles: {
      organization_id: string;
      id: Generated<string>;
      name: string;
      created_at: Generated<Date>;
    };
    crm_grants: { organization_id: string; profile_id: string; object: string; action: string };
  }
}

const profiles = defineTable(
  'crm_profiles',
  { ...tenant(), id: identity, name: textColumn, created_at: now },
  { uniques: [{ name: 'crm_profiles_name', properties: ['organization_id_link', 'name'] }] },
);

const grants = defineTable(
  'crm_grants',
  {
    ...tenantLink('crm_grants', 'profile', 'crm_profiles', { primary: true, deleteRule: 'cascade' }),
    object: { ...textColumn, primary: true },
    action: { ...textColumn, primary: true },
  },
  // Stored on every database node, because every request joins the table with its key or session.
  { placement: 'everywhere', resourceColumns: ['object'], groupColumns: ['object'] },
);

/** Profiles and their grants. */
export const profilesTables = [profiles, grants];
