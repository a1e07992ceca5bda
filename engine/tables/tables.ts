import type { Generated } from 'kysely';

/**
 * Rows of the modules' tables, as queries return them: ids are decimal text, times are
 * Date. Each module declares its own here.
 */
export interface TableRows {
  crm_organizations: { id: Generated<string>; slug: string; name: string; created_at: Generated<Date> };
  crm_former_slugs: { slug: string; holder_id: string; freed_at: Generated<Date> };
}
