import { UserError } from '../errors.ts';
import { defineTable, identity, now, textColumn } from './columns.ts';
import type { Tables } from './handle.ts';

/** The tenants: every other table belongs to one of them. */
export const organizations = defineTable(
  'crm_organizations',
  { id: identity, slug: textColumn, name: textColumn, created_at: now },
  { uniques: [{ name: 'crm_organizations_slug', properties: ['slug'] }] },
);

/** Id of the organization with a slug; without one, of the organization with the lowest id. */
export async function findOrganization(
  tables: Tables,
  slug: string | undefined,
): Promise<string | undefined> {
  // PostgreSQL takes no text with U+0000.
  if (slug?.includes('\0')) return undefined;
  const base = tables.selectFrom('crm_organizations').select('id');
  const one = slug === undefined ? base.orderBy('id').limit(1) : base.where('slug', '=', slug);
  return (await one.executeTakeFirst())?.id;
}

/** The slugs of all organizations. */
export const organizationSlugs = async (tables: Tables): Promise<string[]> =>
  (await tables.selectFrom('crm_organizations').select('slug').execute()).map(({ slug }) => slug);

/**
 * The id of the organization with a slug.
 * @throws UserError when there is none
 */
export async function organizationId(tables: Tables, slug: string): Promise<string> {
  const id = await findOrganization(tables, slug);
  if (id === undefined) throw new UserError(`there is no organization "${slug}"`);
  return id;
}
