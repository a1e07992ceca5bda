import type { Generated } from 'kysely';

/**
 * Row types for the module tables, as returned by queries: IDs are decimal text, and times are Date objects.
 * Each module adds its own tables through declaration merging.
 */
export interface TableRows {
  crm_organizations: {
    id: Generated<string>;
    slug: string;
    name: string;
    phone_region: string | null;
    created_at: Generated<Date>;
  };
  crm_former_slugs: { slug: string; holder_id: string; freed_at: Generated<Date> };
}
