import { violatedConstraint } from '../../../engine/database/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { displayName, type Tables } from '../../../engine/tables/index.ts';
import { addExisting } from '../../access/identity/index.ts';
import { builtInProfiles, createProfile, profileId } from '../../access/profiles/index.ts';

/** Who may make organizations in the browser. */
export type NewOrganizations = 'nobody' | 'administrators';

const slugPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** @throws UserError when a text cannot be a slug */
function assertSlug(slug: string): void {
  if (slugPattern.test(slug)) return;
  throw new UserError(
    `"${slug}" is no slug: use lower-case letters, digits and "-", up to 63 characters, no "-" at the ends`,
  );
}

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
  assertSlug(slug);
  const row = await tables
    .insertInto('crm_organizations')
    .values({ slug, name: displayName(name, 'the name') })
    .onConflict((conflict) => conflict.column('slug').doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw taken(slug);
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

/**
 * Creates an organization for a person, who is its administrator then.
 * @param email of a verified user
 * @throws UserError when the slug is not valid or taken, or the user is not verified
 */
export async function createOrganizationOf(
  tables: Tables,
  actor: Actor,
  email: string,
  { slug, name }: { readonly slug: string; readonly name: string },
): Promise<void> {
  const organization = await createOrganization(tables, actor, slug, name);
  const profile = await profileId(tables, organization, administratorProfile);
  await addExisting(tables, actor, { email, organization, profile });
}

/** An organization as the operator of the instance sees it. */
export interface OrganizationInfo {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly members: number;
  /** In RFC 3339. */
  readonly created_at: string;
}

/** Every organization, by slug. */
export async function listOrganizations(tables: Tables): Promise<OrganizationInfo[]> {
  const rows = await tables
    .selectFrom('crm_organizations as o')
    .leftJoin('crm_memberships as m', 'm.organization_id', 'o.id')
    .select(({ fn }) => ['o.id', 'o.slug', 'o.name', 'o.created_at', fn.count('m.user_id').as('members')])
    .groupBy('o.id')
    .orderBy('o.slug')
    .execute();
  return rows.map(({ members, created_at, ...row }) => ({
    ...row,
    members: Number(members),
    created_at: new Date(created_at).toISOString(),
  }));
}

/**
 * Gives an organization another name, slug or both. What names the old slug (links, config.yaml) has to be changed.
 * @throws UserError when the slug is not valid or taken
 */
export async function renameOrganization(
  tables: Tables,
  actor: Actor,
  id: string,
  given: { readonly slug?: string | undefined; readonly name?: string | undefined },
): Promise<void> {
  const { slug, name } = given;
  if (slug !== undefined) assertSlug(slug);
  try {
    await tables
      .updateTable('crm_organizations')
      .set({
        ...(slug !== undefined && { slug }),
        ...(name !== undefined && { name: displayName(name, 'the name') }),
      })
      .where('id', '=', id)
      .execute();
  } catch (cause) {
    throw violatedConstraint(cause) === undefined ? cause : taken(slug ?? '');
  }
  await recordChanges(tables, actor, {
    organization: id,
    action: 'update',
    object: 'organization',
    objectId: id,
  });
}

const taken = (slug: string) => new UserError(`the organization "${slug}" exists already`);
