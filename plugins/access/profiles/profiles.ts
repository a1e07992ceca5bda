import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import {
  administratorProfile,
  compileGrants,
  covers,
  eventsObject,
  fieldsObject,
  type GrantedResource,
  type Grants,
  membersObject,
  type StoredGrant,
  uncoveredGrants,
  wildcard,
} from '../../../engine/records/index.ts';
import { literal } from '../../../engine/sql/index.ts';
import { displayName, findRow, listRows, type RowSource, type Tables } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  type Input,
  idField,
  type Language,
  type Text,
  TranslatedError,
} from '../../admin-ui/shell/index.ts';
import { type Grant, type GrantableObject, grantIssue, grantText, storedGrant } from './grants.ts';
import { profilesTexts } from './texts/index.ts';

/** Profiles that every organization has from the start. */
export const builtInProfiles: Readonly<Record<string, readonly Grant[]>> = {
  [administratorProfile]: [
    { object: wildcard, actions: [wildcard] },
    { object: eventsObject, actions: [wildcard] },
    { object: membersObject, actions: [wildcard] },
    { object: fieldsObject, actions: [wildcard] },
  ],
  'read-only': [{ object: wildcard, actions: ['list', 'read'] }],
};

/**
 * Creates a profile.
 * @returns the profile's ID
 * @throws UserError if the organization already has a profile with this name
 */
export async function createProfile(
  tables: Tables,
  actor: Actor,
  organization_id: string,
  name: string,
  grants: readonly Grant[],
): Promise<string> {
  const row = await tables
    .insertInto('crm_profiles')
    .values({ organization_id, name: displayName(name, 'the name') })
    .onConflict((conflict) => conflict.columns(['organization_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(profilesTexts.later('nameTaken', { name: name.trim() }));
  const profile_id = row.id;
  await insertGrants(tables, organization_id, profile_id, grants);
  await recordChanges(tables, actor, {
    organization: organization_id,
    action: 'create',
    object: 'profile',
    objectId: profile_id,
  });
  return profile_id;
}

async function insertGrants(
  tables: Tables,
  organization_id: string,
  profile_id: string,
  grants: readonly Grant[],
): Promise<void> {
  const rows = grants.flatMap(({ object, actions }) =>
    [...new Set(actions)].map((action) => ({ organization_id, profile_id, object, action })),
  );
  if (rows.length === 0) return;
  await tables
    .insertInto('crm_grants')
    .values(rows)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** A profile as listed for administrators. */
export interface Profile {
  readonly id: string;
  readonly name: string;
  readonly builtIn: boolean;
  /** The grants in the format of {@link grantText}, sorted. */
  readonly grants: readonly string[];
}

/** An organization's profiles, sorted by name. */
export const profileRows: RowSource<Profile> = {
  from: 'crm_profiles p',
  owner: 'p.organization_id',
  columns: {
    id: 'p.id',
    name: 'p.name',
    builtIn: `p.name in (${Object.keys(builtInProfiles).map(literal)})`,
    grants: `array(select g.object || ':' || g.action from crm_grants g
      where g.organization_id = p.organization_id and g.profile_id = p.id order by 1)`,
  },
  search: ['p.name'],
  order: 'p.name',
};

/** Message for a profile that does not exist. */
export const missingProfile = profilesTexts.later('missing');

/** Replaces a profile's grants. @throws UserError if the profile does not exist or is built in */
export async function changeProfile(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  grants: readonly Grant[],
): Promise<void> {
  await assertCustom(tables, organization, id);
  await tables
    .deleteFrom('crm_grants')
    .where('organization_id', '=', organization)
    .where('profile_id', '=', id)
    .execute();
  await insertGrants(tables, organization, id, grants);
  await recordChanges(tables, actor, { organization, action: 'update', object: 'profile', objectId: id });
}

/**
 * Adds and removes grants in a profile. Grants to remove can name objects, actions and scopes that no longer exist.
 * @param objects the objects on which actions can be granted
 * @throws UserError if the profile does not exist, is built in, or does not have one of the grants to remove
 */
export async function adjustProfile(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  { add = [], remove = [] }: { readonly add?: readonly Grant[]; readonly remove?: readonly Grant[] },
  objects: readonly GrantableObject[],
): Promise<void> {
  await assertCustom(tables, organization, id);
  for (const { object, actions } of remove) {
    for (const action of actions) {
      const row = await tables
        .deleteFrom('crm_grants')
        .where('organization_id', '=', organization)
        .where('profile_id', '=', id)
        .where('object', '=', object)
        .where('action', '=', action)
        .returning('object')
        .executeTakeFirst();
      if (row !== undefined) continue;
      const issue = grantIssue({ object, action }, objects);
      throw new UserError(
        issue === undefined
          ? `the profile does not have the grant ${grantText({ object, action })}`
          : `${issue}.`,
      );
    }
  }
  await insertGrants(tables, organization, id, add);
  await recordChanges(tables, actor, { organization, action: 'update', object: 'profile', objectId: id });
}

/**
 * Deletes an unused profile.
 * @throws UserError if the profile does not exist, is built in, or is used by a member, live key, open invitation or
 *   event subscription
 */
export async function deleteProfile(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  await assertCustom(tables, organization, id);
  // Revoked or expired keys and closed invitations do not count, because they can never be used again.
  await tables
    .deleteFrom('crm_api_keys')
    .where('organization_id', '=', organization)
    .where('profile_id', '=', id)
    .where((expression) =>
      expression.or([expression('revoked_at', 'is not', null), expression('expires_at', '<', new Date())]),
    )
    .execute();
  await tables
    .deleteFrom('crm_invites')
    .where('organization_id', '=', organization)
    .where('profile_id', '=', id)
    .where((expression) =>
      expression.or([expression('used_at', 'is not', null), expression('expires_at', '<', new Date())]),
    )
    .execute();
  for (const [table, message] of [
    ['crm_memberships', profilesTexts.later('usedByMembers')],
    ['crm_api_keys', profilesTexts.later('usedByKeys')],
    ['crm_invites', profilesTexts.later('usedByInvitations')],
    ['crm_event_subscriptions', profilesTexts.later('usedBySubscriptions')],
  ] as const) {
    const row = await tables
      .selectFrom(table)
      .select('organization_id')
      .where('organization_id', '=', organization)
      .where('profile_id', '=', id)
      .limit(1)
      .executeTakeFirst();
    if (row !== undefined) throw new TranslatedError(message);
  }
  await tables
    .deleteFrom('crm_profiles')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'profile', objectId: id });
}

/** Locks a profile. @throws UserError if it does not exist or is built in */
async function assertCustom(tables: Tables, organization: string, id: string): Promise<void> {
  const row = await tables
    .selectFrom('crm_profiles')
    .select('name')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(missingProfile);
  if (Object.hasOwn(builtInProfiles, row.name))
    throw new TranslatedError(profilesTexts.later('unchangeable', { name: row.name }));
}

/** Returns the ID of the organization's profile with this name. @throws UserError if it does not exist */
export async function profileId(tables: Tables, organization: string, name: string): Promise<string> {
  const row = await tables
    .selectFrom('crm_profiles')
    .select('id')
    .where('organization_id', '=', organization)
    .where('name', '=', name)
    .executeTakeFirst();
  if (row === undefined) {
    const existing = await listRows(tables, profileRows, organization);
    const names = existing.map((profile) => profile.name).join(', ');
    throw new UserError(`profile "${name}" does not exist in this organization. Available: ${names}.`);
  }
  return row.id;
}

/**
 * Returns the form input for selecting a profile. No profile is preselected, so that administrators choose
 * deliberately. The administrator profile is last.
 */
export const profileChoice = async (
  {
    tables,
    organization,
    language,
  }: { readonly tables: Tables; readonly organization: string; readonly language: Language },
  selectedId: string,
  help: Text,
): Promise<Input<Text>> => ({
  kind: 'choice',
  name: 'profile',
  label: profilesTexts(language)('profile'),
  required: true,
  help,
  options: [
    { value: '', label: profilesTexts(language)('chooseAProfile') },
    ...(await listRows(tables, profileRows, organization))
      .sort((a, b) => Number(a.name === administratorProfile) - Number(b.name === administratorProfile))
      .map(({ id, name }) => ({ value: id, label: name, selected: id === selectedId })),
  ],
});

/** An administrator who passes on grants, with the organization's ID. */
export interface Grantor {
  readonly organization: string;
  readonly membership: { readonly grants: Grants };
  readonly services: { readonly resources: readonly { readonly definition: GrantedResource }[] };
}

/**
 * Checks that an administrator has the grants that they pass on. Administrators can pass on all grants on events, because
 * they manage event subscriptions in the admin UI.
 * @throws UserError naming the grants that the administrator does not have
 */
export function assertGrantable({ membership, services }: Grantor, grants: Iterable<StoredGrant>): void {
  const definitions = services.resources.map(({ definition }) => definition);
  const uncovered = uncoveredGrants(membership.grants, compileGrants(grants), definitions).filter(
    (text) => storedGrant(text).object !== eventsObject,
  );
  if (uncovered.length > 0) {
    throw new TranslatedError(profilesTexts.later('grantsMore', { grants: uncovered.join(', ') }));
  }
}

/** Returns the profiles of an organization that grant nothing that a member's own profile does not grant. */
export async function coveredProfiles(
  tables: Tables,
  { organization, membership, services }: Grantor,
): Promise<readonly Profile[]> {
  const definitions = services.resources.map(({ definition }) => definition);
  const profiles = await listRows(tables, profileRows, organization);
  return profiles.filter(({ grants }) =>
    covers(membership.grants, compileGrants(grants.map(storedGrant)), definitions),
  );
}

/**
 * Returns the ID of the profile selected in a form.
 * @throws UserError if no profile is selected, it does not belong to the organization, or it grants more than the
 *   administrator's own profile
 */
export async function chosenProfile(tables: Tables, grantor: Grantor, form: Form): Promise<string> {
  if (field(form, 'profile') === '') throw new TranslatedError(profilesTexts.later('chooseProfile'));
  const id = idField(form, 'profile');
  await assertProfileGrantable(tables, grantor, id);
  return id;
}

/**
 * Checks that an administrator has the grants of a profile that they give to someone.
 * @throws UserError if the profile does not belong to the organization, or grants more than the administrator's own profile
 */
export async function assertProfileGrantable(tables: Tables, grantor: Grantor, id: string): Promise<void> {
  const profile = await findRow(tables, profileRows, grantor.organization, id);
  if (profile === undefined) throw new TranslatedError(missingProfile);
  assertGrantable(grantor, profile.grants.map(storedGrant));
}
