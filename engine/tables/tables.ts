import type { Generated } from 'kysely';

/**
 * Row types of the modules' tables, as returned by queries: IDs are decimal text, and times are Date. Each
 * module adds its own tables by declaration merging.
 */
export interface TableRows {
  crm_organizations: { id: Generated<string>; slug: string; name: string; created_at: Generated<Date> };
  crm_former_slugs: { slug: string; holder_id: string; freed_at: Generated<Date> };
}
