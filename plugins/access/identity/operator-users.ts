// Functions for managing users in all organizations, available to the instance's operator.

import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { unlinkIdentities } from './identities.ts';
import { removeSecondFactors, selectSecondFactor } from './second-factors.ts';
import { endAllSessions } from './sessions.ts';
import { changeName, changePassword, normalEmail } from './users.ts';

/** A user as shown to the operator. Times are in RFC 3339 format. */
export interface UserInfo {
  readonly id: string;
  readonly email: string;
  /** The person's name; null if it has not been entered. */
  readonly name: string | null;
  /** When the email address was verified, or null if it has not been verified. */
  readonly verified_at: string | null;
  /** Slug of the only organization that an unverified user can belong to; null for a verified user. */
  readonly organization: string | null;
  readonly disabled_at: string | null;
  readonly created_at: string;
  /** Slugs of the user's organizations, each with the user's profile there. */
  readonly memberships: readonly { readonly organization: string; readonly profile: string }[];
  /** Number of live sessions. */
  readonly sessions: number;
  /** Whether the user needs a second factor to log in. */
  readonly second_factor: boolean;
}

const time = (value: Date | string | null) => (value === null ? null : new Date(value).toISOString());

/**
 * Lists the users that match all filters, sorted by email address.
 * @param filters `organization` is an organization ID
 */
export async function listUsers(
  tables: Tables,
  filters: { readonly organization?: string; readonly email?: string; readonly id?: string } = {},
): Promise<UserInfo[]> {
  let query = tables
    .selectFrom('crm_users as u')
    .leftJoin('crm_organizations as o', 'o.id', 'u.organization_id')
    .select(['u.id', 'u.email', 'u.name', 'u.verified_at', 'u.disabled_at', 'u.created_at', 'o.slug'])
    .select(({ selectFrom, fn }) =>
      selectFrom('crm_sessions as s')
        .select(fn.countAll().as('count'))
        .whereRef('s.user_id', '=', 'u.id')
        .where('s.expires_at', '>', new Date())
        .as('sessions'),
    )
    .select(selectSecondFactor);
  if (filters.email !== undefined) query = query.where('u.email', '=', filters.email);
  if (filters.id !== undefined) query = query.where('u.id', '=', filters.id);
  const { organization } = filters;
  if (organization !== undefined) {
    query = query.where(({ exists, selectFrom }) =>
      exists(
        selectFrom('crm_memberships as m')
          .select('m.user_id')
          .whereRef('m.user_id', '=', 'u.id')
          .where('m.organization_id', '=', organization),
      ),
    );
  }
  const rows = await query.orderBy('u.email').orderBy('u.id').execute();
  const memberships = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_organizations as o', 'o.id', 'm.organization_id')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .select(['m.user_id', 'o.slug as organization', 'p.name as profile'])
    .orderBy('o.slug')
    .execute();
  const byUser = Map.groupBy(memberships, (row) => row.user_id);
  return rows.map((row) => ({
    id: row.id,
    email: row.email,
    name: row.name,
    verified_at: time(row.verified_at),
    organization: row.slug,
    disabled_at: time(row.disabled_at),
    created_at: time(row.created_at) ?? '',
    memberships: (byUser.get(row.id) ?? []).map(({ organization, profile }) => ({
      organization,
      profile,
    })),
    sessions: Number(row.sessions),
    second_factor: row.second_factor,
  }));
}

/**
 * Finds a user by email address or ID.
 * @throws UserError if the user does not exist, or if several users have the email address
 */
export async function findUserBy(tables: Tables, emailOrId: string): Promise<UserInfo> {
  const users = await listUsers(
    tables,
    isRowId(emailOrId) ? { id: emailOrId } : { email: normalEmail(emailOrId) },
  );
  const [user, ...others] = users;
  if (user === undefined)
    throw new UserError(`user ${emailOrId} does not exist. "crm user list" lists all users.`);
  if (others.length === 0) return user;
  const descriptions = users.map(({ id, organization }) =>
    organization === null ? `${id} (verified)` : `${id} (unverified, in "${organization}")`,
  );
  throw new UserError(
    `${user.email} belongs to ${users.length} users. Use an ID instead: ${descriptions.join(', ')}`,
  );
}

/**
 * Verifies a user's email address, so that the user can belong to several organizations.
 * @throws UserError if the address is already verified for this or another user
 */
export async function verifyEmail(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if (user.verified_at !== null) throw new UserError(`user ${user.id} is already verified`);
  const usersWithEmail = await listUsers(tables, { email: user.email });
  const verifiedUser = usersWithEmail.find(({ verified_at }) => verified_at !== null);
  if (verifiedUser !== undefined) {
    throw new UserError(
      `another user with the email address ${user.email} is already verified: ${verifiedUser.id}`,
    );
  }
  await markVerified(tables, user.id);
  await record(tables, actor, user.id, 'verify');
}

/** Marks a user's email address as verified. */
async function markVerified(tables: Tables, id: string): Promise<void> {
  await tables
    .updateTable('crm_users')
    .set({ verified_at: new Date(), organization_id: null })
    .where('id', '=', id)
    .execute();
}

/**
 * Marks a user's email address as verified by its owner. Removes all second factors, because another person
 * who knew the password may have set them up.
 */
export async function markEmailProven(tables: Tables, id: string): Promise<void> {
  await removeSecondFactors(tables, id);
  await markVerified(tables, id);
}

/** Changes a user's name. @throws UserError if the name is not valid */
export async function renameUser(
  tables: Tables,
  actor: Actor,
  user: Pick<UserInfo, 'id'>,
  name: string,
): Promise<void> {
  await changeName(tables, user.id, name);
  await record(tables, actor, user.id, 'rename');
}

/** Removes all second factors from a user who has lost them, and ends all of the user's sessions. */
export async function resetSecondFactor(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  await removeSecondFactors(tables, user.id);
  await endAllSessions(tables, actor, user.id, []);
  await record(tables, actor, user.id, 'reset second factor');
}

/** Removes a user's links to providers. @throws UserError if the user is not linked */
export async function unlinkUser(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if ((await unlinkIdentities(tables, user.id)) === 0) {
    throw new UserError(`user ${user.id} is not linked to a provider`);
  }
  await record(tables, actor, user.id, 'unlink provider');
}

/**
 * Disables a user: prevents logins and ends sessions and tokens. API keys stay valid.
 * @throws UserError if the user is already disabled
 */
export async function disableUser(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if (user.disabled_at !== null) throw new UserError(`user ${user.id} is already disabled`);
  await setDisabled(tables, user.id, new Date());
  await endAllSessions(tables, actor, user.id, []);
  await record(tables, actor, user.id, 'disable');
}

/** Enables a disabled user. @throws UserError if the user is not disabled */
export async function enableUser(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if (user.disabled_at === null) throw new UserError(`user ${user.id} is not disabled`);
  await setDisabled(tables, user.id, null);
  await record(tables, actor, user.id, 'enable');
}

const setDisabled = (tables: Tables, id: string, disabled_at: Date | null) =>
  tables.updateTable('crm_users').set({ disabled_at }).where('id', '=', id).execute();

/**
 * Changes a user's password and ends all of the user's sessions. @throws UserError if the password is not
 * acceptable
 */
export async function resetPassword(
  tables: Tables,
  actor: Actor,
  user: { readonly id: string; readonly email: string },
  password: string,
): Promise<void> {
  await changePassword(tables, user, password);
  await endAllSessions(tables, actor, user.id, []);
  await record(tables, actor, user.id, 'reset password');
}

/** Records a change to a user in the change logs of all of the user's organizations. */
async function record(tables: Tables, actor: Actor, user: string, action: string): Promise<void> {
  const memberships = await tables
    .selectFrom('crm_memberships')
    .select('organization_id')
    .where('user_id', '=', user)
    .execute();
  const entries = memberships.map(({ organization_id }) => ({
    organization: String(organization_id),
    action,
    object: 'member',
    objectId: user,
  }));
  await recordChanges(tables, actor, ...entries);
}
