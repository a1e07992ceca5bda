import type { Generated } from 'kysely';
import { identity, now, table, tenant, tenantLink, text } from '../../engine/tables/index.ts';

declare module '../../engine/tables/index.ts' {
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

const profiles = table(
  'crm_profiles',
  { ...tenant(), id: identity, name: text, created_at: now },
  { uniques: [{ name: 'crm_profiles_name', properties: ['organization_id_link', 'name'] }] },
);

const grants = table(
  'crm_grants',
  {
    ...tenantLink('crm_grants', 'profile', 'crm_profiles', { primary: true, deleteRule: 'cascade' }),
    object: { ...text, primary: true },
    action: { ...text, primary: true },
  },
  // Found with the key or the session that a request brings.
  { placement: 'everywhere', resourceColumns: ['object'] },
);

/** Profiles and their grants. */
export const profilesTables = [profiles, grants];
