import { UserError } from '../errors.ts';
import { type Actor, note } from './activity.ts';
import { type Platform, plain } from './handle.ts';
import { builtInProfiles, createProfile } from './profiles.ts';

const slugPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Makes an organization with its built-in profiles.
 * @returns its id
 * @throws UserError when the slug is not valid or taken
 */
export async function createOrganization(
  tables: Platform,
  by: Actor,
  slug: string,
  name: string,
): Promise<string> {
  if (!slugPattern.test(slug)) {
    throw new UserError(
      `"${slug}" is no slug: use lower-case letters, digits and "-", up to 63 characters, no "-" at the ends`,
    );
  }
  const row = await tables
    .insertInto('crm_organizations')
    .values({ slug, name: plain(name, 'the name') })
    .onConflict((conflict) => conflict.column('slug').doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`the organization "${slug}" exists already`);
  const id = String(row.id);
  await note(tables, by, { organization: id, action: 'create', object: 'organization', objectId: id });
  for (const [profile, grants] of Object.entries(builtInProfiles)) {
    await createProfile(tables, by, id, profile, grants);
  }
  return id;
}

/**
 * The id of the organization with a slug.
 * @throws UserError when there is none
 */
export async function organizationId(tables: Platform, slug: string): Promise<string> {
  const row = await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('slug', '=', slug)
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`there is no organization "${slug}"`);
  return String(row.id);
}
