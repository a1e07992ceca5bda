import { compileGrants, type Grants } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';

/** Loads a profile's grants. A profile that does not exist grants nothing. */
export async function profileGrants(tables: Tables, organization: string, profile: string): Promise<Grants> {
  const rows = await tables
    .selectFrom('crm_grants')
    .select(['object', 'action'])
    .where('organization_id', '=', organization)
    .where('profile_id', '=', profile)
    .execute();
  return compileGrants(rows);
}
