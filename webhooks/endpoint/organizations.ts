import type { Tables } from '../../engine/tables/index.ts';

/** Id of the organization with a slug; without one, of the organization with the lowest id. */
export async function findOrganization(
  tables: Tables,
  slug: string | readonly string[] | undefined,
): Promise<string | undefined> {
  if (slug !== undefined && (typeof slug !== 'string' || slug.includes('\0'))) return undefined;
  const base = tables.selectFrom('crm_organizations').select('id');
  const row = await (slug === undefined
    ? base.orderBy('id').limit(1)
    : base.where('slug', '=', slug)
  ).executeTakeFirst();
  return row === undefined ? undefined : row.id;
}
