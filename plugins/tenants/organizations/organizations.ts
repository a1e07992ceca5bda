import { violatedConstraint } from '../../../engine/database/index.ts';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { phoneRegionOf } from '../../../engine/fields/index.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { displayName, type Tables } from '../../../engine/tables/index.ts';
import { addExistingUser } from '../../access/identity/index.ts';
import { builtInProfiles, createProfile, profileId } from '../../access/profiles/index.ts';
import { TranslatedError } from '../../admin-ui/shell/index.ts';
import { organizationsTexts } from './texts/index.ts';

const { later } = organizationsTexts;

/** Users allowed to create organizations in the browser. */
export type NewOrganizations = 'nobody' | 'administrators';

const slugPattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The slugs in config.yaml, each with the path of the setting that contains it. */
export type ConfiguredSlugs = ReadonlyMap<string, string>;

/** Checks a slug. @throws UserError if it is not valid */
function assertSlug(slug: string): void {
  if (slugPattern.test(slug)) return;
  throw new TranslatedError(later('invalidSlug', { slug }));
}

/**
 * Creates an organization with its built-in profiles.
 * @returns its ID
 * @throws UserError if the slug is invalid, taken or reserved
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
  if (row === undefined) throw slugTaken(slug);
  const id = row.id;
  await assertNotReserved(tables, slug, id);
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
 * Creates an organization with a user as its administrator.
 * @param email the email address of a verified user
 * @throws UserError if the slug is invalid, taken or reserved, or if the user is not verified
 */
export async function createOrganizationOf(
  tables: Tables,
  actor: Actor,
  email: string,
  { slug, name }: { readonly slug: string; readonly name: string },
): Promise<void> {
  const organization = await createOrganization(tables, actor, slug, name);
  const profile = await profileId(tables, organization, administratorProfile);
  await addExistingUser(tables, actor, { email, organization, profile });
}

/** An organization, as displayed to the operator. */
interface OrganizationInfo {
  readonly id: string;
  readonly slug: string;
  readonly name: string;
  readonly members: number;
  /** ISO 3166 code of the country of phone numbers without a country code; null if it is not set. */
  readonly phone_region: string | null;
  /** RFC 3339 timestamp. */
  readonly created_at: string;
}

/** Returns all organizations, sorted by slug. */
export async function listOrganizations(tables: Tables): Promise<OrganizationInfo[]> {
  const rows = await tables
    .selectFrom('crm_organizations as o')
    .leftJoin('crm_memberships as m', 'm.organization_id', 'o.id')
    .select(({ fn }) => [
      'o.id',
      'o.slug',
      'o.name',
      'o.phone_region',
      'o.created_at',
      fn.count('m.user_id').as('members'),
    ])
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
 * Changes an organization's name, slug or both in a transaction. The previous slug can still be used.
 * @throws UserError if the slug is invalid, taken, reserved for another organization or named in config.yaml
 */
export async function renameOrganization(
  tables: Tables,
  actor: Actor,
  id: string,
  {
    slug,
    name,
    configured,
  }: {
    readonly slug?: string | undefined;
    readonly name?: string | undefined;
    readonly configured: ConfiguredSlugs;
  },
): Promise<void> {
  if (slug !== undefined) await freeSlug(tables, id, slug, configured);
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
    throw violatedConstraint(cause) === undefined ? cause : slugTaken(slug ?? '');
  }
  if (slug !== undefined) await assertNotReserved(tables, slug, id);
  await recordChanges(tables, actor, {
    organization: id,
    action: 'update',
    object: 'organization',
    objectId: id,
  });
}

/**
 * Sets the country of phone numbers without a country code, in a transaction.
 * @param code the country's ISO 3166 code in any case, or an empty string if numbers are compared only by their digits
 * @returns the stored code, or null
 * @throws UserError if the code is not valid
 */
export async function setPhoneRegion(
  tables: Tables,
  actor: Actor,
  id: string,
  code: string,
): Promise<string | null> {
  const region = code === '' ? null : phoneRegionOf(code);
  if (region === undefined) throw new TranslatedError(later('invalidCountry', { code }));
  await tables.updateTable('crm_organizations').set({ phone_region: region }).where('id', '=', id).execute();
  await recordChanges(tables, actor, {
    organization: id,
    action: 'update',
    object: 'organization',
    objectId: id,
  });
  return region;
}

/** Reserves an organization's current slug, which is about to change. */
async function freeSlug(
  tables: Tables,
  id: string,
  slug: string,
  configured: ConfiguredSlugs,
): Promise<void> {
  assertSlug(slug);
  const current = await tables
    .selectFrom('crm_organizations')
    .select('slug')
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (current === undefined || current.slug === slug) return;
  const setting = configured.get(current.slug);
  if (setting !== undefined)
    throw new TranslatedError(later('slugInConfig', { slug: current.slug, setting }));
  await tables
    .insertInto('crm_former_slugs')
    .values({ slug: current.slug, holder_id: id })
    .onConflict((conflict) => conflict.column('slug').doNothing())
    .execute();
}

/**
 * Checks that a slug did not belong to another organization. Must be called after the slug has been written.
 * By then, any concurrent transaction that frees the slug has been committed, so its reservation is visible.
 */
async function assertNotReserved(tables: Tables, slug: string, id: string): Promise<void> {
  const reserved = await tables
    .selectFrom('crm_former_slugs')
    .select('slug')
    .where('slug', '=', slug)
    .where('holder_id', '<>', id)
    .executeTakeFirst();
  if (reserved !== undefined) throw reservedSlug(slug);
}

/**
 * Returns the error for a reserved slug. It does not state the reason, because that would reveal other organizations.
 */
export const reservedSlug = (slug: string) => new TranslatedError(later('slugReserved', { slug }));

const slugTaken = (slug: string) => new TranslatedError(later('slugTaken', { slug }));
