// What the operator of the instance does with users of all organizations.

import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { normalEmail } from './emails.ts';
import { unlinkIdentities } from './identities.ts';
import { removeSecondFactors, selectSecondFactor } from './second-factors.ts';
import { endAllSessions } from './sessions.ts';
import { changePassword } from './users.ts';

/** A user as the operator sees it. Times in RFC 3339. */
export interface UserInfo {
  readonly id: string;
  readonly email: string;
  /** When the address was verified; null until then. */
  readonly verified_at: string | null;
  /** Slug of the one organization that an unverified user may belong to; null for a verified user. */
  readonly organization: string | null;
  readonly disabled_at: string | null;
  readonly created_at: string;
  /** Slugs of the organizations it is a member of, with the profile there. */
  readonly memberships: readonly { readonly organization: string; readonly profile: string }[];
  /** How many sessions are live. */
  readonly sessions: number;
  /** Whether a login takes a second factor. */
  readonly second_factor: boolean;
}

const time = (value: Date | string | null) => (value === null ? null : new Date(value).toISOString());

/**
 * Every user by address, or those that match.
 * @param only filters; `organization` is the id of an organization
 */
export async function listUsers(
  tables: Tables,
  only: { readonly organization?: string; readonly email?: string; readonly id?: string } = {},
): Promise<UserInfo[]> {
  let query = tables
    .selectFrom('crm_users as u')
    .leftJoin('crm_organizations as o', 'o.id', 'u.organization_id')
    .select(['u.id', 'u.email', 'u.verified_at', 'u.disabled_at', 'u.created_at', 'o.slug'])
    .select(({ selectFrom, fn }) =>
      selectFrom('crm_sessions as s')
        .select(fn.countAll().as('count'))
        .whereRef('s.user_id', '=', 'u.id')
        .where('s.expires_at', '>', new Date())
        .as('sessions'),
    )
    .select(selectSecondFactor);
  if (only.email !== undefined) query = query.where('u.email', '=', only.email);
  if (only.id !== undefined) query = query.where('u.id', '=', only.id);
  const { organization } = only;
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
 * Finds the user that the operator names.
 * @param wanted its e-mail address or id
 * @throws UserError if the user does not exist, or several users have the email address
 */
export async function findUserBy(tables: Tables, wanted: string): Promise<UserInfo> {
  const found = await listUsers(tables, isRowId(wanted) ? { id: wanted } : { email: normalEmail(wanted) });
  const [user, ...more] = found;
  if (user === undefined)
    throw new UserError(`user ${wanted} does not exist. "crm user list" lists all users.`);
  if (more.length === 0) return user;
  const each = found.map(({ id, organization }) =>
    organization === null ? `${id} (verified)` : `${id} (unverified, of "${organization}")`,
  );
  throw new UserError(
    `${user.email} belongs to ${found.length} users. Use an ID instead: ${each.join(', ')}`,
  );
}

/**
 * Verifies the address of a user, who may then belong to several organizations.
 * @throws UserError if it is verified already, or another user of the address is
 */
export async function verifyAddress(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if (user.verified_at !== null) throw new UserError(`user ${user.id} is already verified`);
  const sameAddress = await listUsers(tables, { email: user.email });
  const verified = sameAddress.find(({ verified_at }) => verified_at !== null);
  if (verified !== undefined) {
    throw new UserError(
      `another user with the email address ${user.email} is already verified: ${verified.id}`,
    );
  }
  await markVerified(tables, user.id);
  await record(tables, actor, user.id, 'verify');
}

/** Marks the address of a user as verified. */
export async function markVerified(tables: Tables, id: string): Promise<void> {
  await tables
    .updateTable('crm_users')
    .set({ verified_at: new Date(), organization_id: null })
    .where('id', '=', id)
    .execute();
}

/**
 * Marks the address of a user as proven by its holder. Second factors are removed: until now somebody else may have had
 * the password, and set them up.
 */
export async function markEmailProven(tables: Tables, id: string): Promise<void> {
  await removeSecondFactors(tables, id);
  await markVerified(tables, id);
}

/** Removes every second factor of a user who has lost them, and ends every session. */
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
 * Disables a user: no login, and its sessions and tokens end. Its API keys stay valid.
 * @throws UserError if it is disabled already
 */
export async function disableUser(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if (user.disabled_at !== null) throw new UserError(`user ${user.id} is already disabled`);
  await setDisabled(tables, user.id, new Date());
  await endAllSessions(tables, actor, user.id, []);
  await record(tables, actor, user.id, 'disable');
}

/** Enables a user again. @throws UserError if it is not disabled */
export async function enableUser(tables: Tables, actor: Actor, user: UserInfo): Promise<void> {
  if (user.disabled_at === null) throw new UserError(`user ${user.id} is not disabled`);
  await setDisabled(tables, user.id, null);
  await record(tables, actor, user.id, 'enable');
}

const setDisabled = (tables: Tables, id: string, disabled_at: Date | null) =>
  tables.updateTable('crm_users').set({ disabled_at }).where('id', '=', id).execute();

/**
 * Changes the password of a user and ends every session.
 * @throws UserError when the password is not acceptable
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

/** Records a change of a user in the audit log of every organization that it is a member of. */
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
