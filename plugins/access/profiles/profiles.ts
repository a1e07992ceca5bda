import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import {
  type Action,
  actionNames,
  administratorProfile,
  eventsObject,
  membersObject,
  wildcard,
} from '../../../engine/records/index.ts';
import { literal } from '../../../engine/sql/index.ts';
import { displayName, findRow, listRows, type RowSource, type Tables } from '../../../engine/tables/index.ts';
import { type Form, field, type Input, idField } from '../../admin-ui/shell/index.ts';

/** Profiles that every organization has from the start. */
export const builtInProfiles: Readonly<Record<string, readonly Grant[]>> = {
  [administratorProfile]: [
    { object: wildcard, actions: [wildcard] },
    { object: membersObject, actions: [wildcard] },
  ],
  'read-only': [{ object: wildcard, actions: ['list', 'read'] }],
};

/** Actions granted on an object. `*` stands for all objects or actions, including those added later. */
export interface Grant {
  readonly object: string;
  readonly actions: readonly (Action | typeof wildcard)[];
}

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
  if (row === undefined) throw new UserError(`a profile named "${name.trim()}" already exists`);
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
  /** The grants, each in the form `object:action`, sorted. */
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
export const missingProfile = 'this profile does not exist';

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
 * Adds and removes grants in a profile.
 * @throws UserError if the profile does not exist, is built in, or does not have one of the grants to remove
 */
export async function adjustProfile(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
  { add = [], remove = [] }: { readonly add?: readonly Grant[]; readonly remove?: readonly Grant[] },
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
      if (row === undefined) throw new UserError(`the profile does not have the grant ${object}:${action}`);
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
  for (const [table, label] of [
    ['crm_memberships', 'members'],
    ['crm_api_keys', 'API keys'],
    ['crm_invites', 'invitations'],
    ['crm_event_subscriptions', 'event subscriptions'],
  ] as const) {
    const row = await tables
      .selectFrom(table)
      .select('organization_id')
      .where('organization_id', '=', organization)
      .where('profile_id', '=', id)
      .limit(1)
      .executeTakeFirst();
    if (row !== undefined)
      throw new UserError(`this profile is in use by ${label}. Change their profile first.`);
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
  if (row === undefined) throw new UserError(missingProfile);
  if (Object.hasOwn(builtInProfiles, row.name))
    throw new UserError(`the profile "${row.name}" cannot be changed`);
}

/** Returns the objects on which actions can be granted, except the wildcard. */
export const grantableObjects = (resources: readonly { readonly name: string }[]): string[] => [
  ...resources.map(({ name }) => name),
  eventsObject,
  membersObject,
];

/**
 * Parses a grant from the command line: `leads:list,read`, `leads:*` or `*:*`.
 * @throws UserError if the object or an action does not exist
 */
export function parseGrant(text: string, objects: readonly string[]): Grant {
  const [object = '', list = '', ...rest] = text.split(':');
  const actions = list.split(',');
  if (rest.length > 0 || list === '') {
    throw new UserError(
      `"${text}" is not a grant. Use object:action,action, for example ${objects[0]}:list,read.`,
    );
  }
  if (object !== wildcard && !objects.includes(object)) {
    throw new UserError(`object "${object}" does not exist. Available: ${objects.join(', ')}, ${wildcard}.`);
  }
  const unknown = actions.find((action) => action !== wildcard && !actionNames.includes(action as Action));
  if (unknown !== undefined) {
    throw new UserError(
      `action "${unknown}" does not exist. Available: ${actionNames.join(', ')}, ${wildcard}.`,
    );
  }
  return { object, actions: actions as Grant['actions'] };
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
  { tables, organization }: { readonly tables: Tables; readonly organization: string },
  selectedId: string,
  help: string,
): Promise<Input> => ({
  kind: 'choice',
  name: 'profile',
  label: 'Profile',
  required: true,
  help,
  options: [
    { value: '', label: 'Choose a profile' },
    ...(await listRows(tables, profileRows, organization))
      .sort((a, b) => Number(a.name === administratorProfile) - Number(b.name === administratorProfile))
      .map(({ id, name }) => ({ value: id, label: name, selected: id === selectedId })),
  ],
});

/**
 * Returns the ID of the profile selected in a form.
 * @throws UserError if no profile is selected, or it does not belong to the organization
 */
export async function chosenProfile(tables: Tables, organization: string, form: Form): Promise<string> {
  if (field(form, 'profile') === '') throw new UserError('choose a profile');
  const id = idField(form, 'profile');
  if ((await findRow(tables, profileRows, organization, id)) === undefined)
    throw new UserError(missingProfile);
  return id;
}
