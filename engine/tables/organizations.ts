import { UserError } from '../errors.ts';
import { identity, now, table, text } from './columns.ts';
import type { Tables } from './handle.ts';

/** The tenants: every other table belongs to one of them. */
export const organizations = table(
  'crm_organizations',
  { id: identity, slug: text, name: text, created_at: now },
  { uniques: [{ name: 'crm_organizations_slug', properties: ['slug'] }] },
);

/**
 * The id of the organization with a slug.
 * @throws UserError when there is none
 */
export async function organizationId(tables: Tables, slug: string): Promise<string> {
  const row = await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('slug', '=', slug)
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`there is no organization "${slug}"`);
  return row.id;
}
