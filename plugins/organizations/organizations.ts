import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import { displayName, type Tables } from '../../engine/tables/index.ts';
import { builtInProfiles, createProfile } from '../profiles/index.ts';

const slugPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Creates an organization with its built-in profiles.
 * @returns its id
 * @throws UserError when the slug is not valid or taken
 */
export async function createOrganization(
  tables: Tables,
  actor: Actor,
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
    .values({ slug, name: displayName(name, 'the name') })
    .onConflict((conflict) => conflict.column('slug').doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`the organization "${slug}" exists already`);
  const id = row.id;
  await recordChanges(tables, actor, {
    organization: id,
    action: 'create',
    object: 'organization',
    objectId: id,
  });
  for (const [profile, grants] of Object.entries(builtInProfiles)) {
    await createProfile(tables, actor, id, profile, grants);
  }
  return id;
}
