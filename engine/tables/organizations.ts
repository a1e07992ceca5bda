import { UserError } from '../errors.ts';
import { bigintColumn, defineTable, identity, now, textColumn } from './columns.ts';
import type { Tables } from './handle.ts';

/** The organizations table. Rows in most other tables belong to an organization. */
export const organizations = defineTable(
  'crm_organizations',
  {
    id: identity,
    slug: textColumn,
    name: textColumn,
    /** ISO 3166 code of the country of phone numbers without a country code. */
    phone_region: { ...textColumn, nullable: true },
    created_at: now,
  },
  { uniques: [{ name: 'crm_organizations_slug', properties: ['slug'] }] },
);

/**
 * Former slugs of organizations. Slugs remain reserved even after the organization is deleted, because
 * configuration and links can still contain them. The table does not have `organization_id`, so that slugs
 * are kept when an organization is deleted.
 */
export const formerSlugs = defineTable(
  'crm_former_slugs',
  { slug: { ...textColumn, primary: true }, holder_id: bigintColumn, freed_at: now },
  { indexes: [{ name: 'crm_former_slugs_holder', properties: ['holder_id'] }] },
);

/** Returns the ID of the organization with this current or former slug, or the lowest ID without a slug. */
export async function findOrganization(
  tables: Tables,
  slug: string | undefined,
): Promise<string | undefined> {
  // PostgreSQL rejects strings that contain U+0000.
  if (slug?.includes('\0')) return undefined;
  const base = tables.selectFrom('crm_organizations as o').select('o.id').limit(1);
  const query =
    slug === undefined
      ? base.orderBy('o.id')
      : base.where((eb) =>
          eb.or([
            eb('o.slug', '=', slug),
            eb(
              'o.id',
              '=',
              eb.selectFrom('crm_former_slugs as f').select('f.holder_id').where('f.slug', '=', slug),
            ),
          ]),
        );
  return (await query.executeTakeFirst())?.id;
}

/** Returns the current and former slugs of all organizations. */
export async function organizationSlugs(tables: Tables): Promise<string[]> {
  const formerSlugQuery = tables
    .selectFrom('crm_former_slugs as f')
    .innerJoin('crm_organizations as o', 'o.id', 'f.holder_id')
    .select('f.slug');
  const rows = await tables.selectFrom('crm_organizations').select('slug').union(formerSlugQuery).execute();
  return rows.map(({ slug }) => slug);
}

/**
 * Returns an organization's slugs, starting with the current one, or an empty array if the organization does
 * not exist.
 */
export async function slugsOf(tables: Tables, id: string): Promise<readonly string[]> {
  const rows = await tables
    .selectFrom('crm_organizations as o')
    .leftJoin('crm_former_slugs as f', 'f.holder_id', 'o.id')
    .select(['o.slug', 'f.slug as former'])
    .where('o.id', '=', id)
    .execute();
  return [
    ...new Set(
      rows.flatMap(({ slug, former: formerSlug }) => (formerSlug === null ? [slug] : [slug, formerSlug])),
    ),
  ];
}

/** Returns the country of an organization's phone numbers without a country code, or undefined if it is not set. */
export async function phoneRegionIn(tables: Tables, organization: string): Promise<string | undefined> {
  const row = await tables
    .selectFrom('crm_organizations')
    .select('phone_region')
    .where('id', '=', organization)
    .executeTakeFirst();
  return row?.phone_region ?? undefined;
}

/**
 * Returns the ID of the organization with this slug.
 * @throws UserError if no organization has the slug
 */
export async function organizationId(tables: Tables, slug: string): Promise<string> {
  const id = await findOrganization(tables, slug);
  if (id === undefined) throw new UserError(`organization "${slug}" does not exist`);
  return id;
}
