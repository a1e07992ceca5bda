import { UserError } from '../errors.ts';
import { type Actor, note } from './activity.ts';
import type { Platform } from './handle.ts';
import { administrator } from './profiles.ts';
import { hashSecret, isSecret, makeCode, makePublicId } from './secrets.ts';
import { createUser, type NewMember, normalEmail } from './users.ts';

/** A member as an administrator sees them. */
export interface Member {
  readonly id: string;
  readonly email: string;
  readonly profile: string;
  readonly profile_id: string;
  readonly since: Date;
}

/** The members of an organization, by e-mail address. */
export async function listMembers(tables: Platform, organization: string): Promise<Member[]> {
  const rows = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_users as u', 'u.id', 'm.user_id')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .select(['u.id', 'u.email', 'p.name as profile', 'p.id as profile_id', 'm.created_at as since'])
    .where('m.organization_id', '=', organization)
    .orderBy('u.email')
    .execute();
  return rows.map((row) => ({
    ...row,
    id: String(row.id),
    profile_id: String(row.profile_id),
    since: new Date(row.since),
  }));
}

/**
 * Gives a member another profile.
 * @throws UserError when there is no such member, or nobody would be left to administrate
 */
export async function changeMember(
  tables: Platform,
  by: Actor,
  organization: string,
  user: string,
  profile: string,
): Promise<void> {
  await lockMembers(tables, organization);
  const changed = await tables
    .updateTable('crm_memberships')
    .set({ profile_id: profile })
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (changed === undefined) throw new UserError('there is no such member');
  await assertAdministrated(tables, organization);
  await note(tables, by, { organization, action: 'update', object: 'member', objectId: user });
}

/**
 * Ends a membership.
 * @throws UserError as {@link changeMember}
 */
export async function removeMember(
  tables: Platform,
  by: Actor,
  organization: string,
  user: string,
): Promise<void> {
  await lockMembers(tables, organization);
  const removed = await tables
    .deleteFrom('crm_memberships')
    .where('organization_id', '=', organization)
    .where('user_id', '=', user)
    .returning('user_id')
    .executeTakeFirst();
  if (removed === undefined) throw new UserError('there is no such member');
  await assertAdministrated(tables, organization);
  await note(tables, by, { organization, action: 'delete', object: 'member', objectId: user });
}

/** One change of members at a time: two administrators may not remove each other at once. */
async function lockMembers(tables: Platform, organization: string): Promise<void> {
  await tables
    .selectFrom('crm_organizations')
    .select('id')
    .where('id', '=', organization)
    .forUpdate()
    .execute();
}

async function assertAdministrated(tables: Platform, organization: string): Promise<void> {
  const left = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.id', '=', 'm.profile_id'),
    )
    .select('m.user_id')
    .where('m.organization_id', '=', organization)
    .where('p.name', '=', administrator)
    .limit(1)
    .executeTakeFirst();
  if (left === undefined) {
    throw new UserError('this is the last administrator: make another member one first');
  }
}

/** An invitation as an administrator sees it. */
export interface Invite {
  readonly id: string;
  readonly public_id: string;
  readonly email: string;
  readonly profile: string;
  readonly expires_at: Date;
}

const inviteMs = 7 * 86_400_000;

/**
 * Invites somebody. The link names the invitation, the code opens it: no secret stands in a URL.
 * @throws UserError when the address is none or belongs to a member
 */
export async function invite(
  tables: Platform,
  by: Actor,
  invitation: { readonly organization: string; readonly email: string; readonly profile: string },
): Promise<{ readonly publicId: string; readonly code: string }> {
  const { organization, profile } = invitation;
  const email = normalEmail(invitation.email);
  const members = await listMembers(tables, organization);
  if (members.some((member) => member.email === email)) {
    throw new UserError(`${email} is a member of this organization already`);
  }
  const publicId = makePublicId();
  const code = makeCode();
  const row = await tables
    .insertInto('crm_invites')
    .values({
      organization_id: organization,
      public_id: publicId,
      code_hash: hashSecret(code),
      email,
      profile_id: profile,
      invited_by_id: by.kind === 'user' ? by.id : null,
      expires_at: new Date(Date.now() + inviteMs),
      used_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await note(tables, by, { organization, action: 'create', object: 'invite', objectId: String(row.id) });
  return { publicId, code };
}

/** The invitations of an organization that can still be used, newest first. */
export async function listInvites(tables: Platform, organization: string): Promise<Invite[]> {
  const rows = await tables
    .selectFrom('crm_invites as i')
    .innerJoin('crm_profiles as p', (join) =>
      join.onRef('p.organization_id', '=', 'i.organization_id').onRef('p.id', '=', 'i.profile_id'),
    )
    .select(['i.id', 'i.public_id', 'i.email', 'p.name as profile', 'i.expires_at'])
    .where('i.organization_id', '=', organization)
    .where('i.used_at', 'is', null)
    .where('i.expires_at', '>', new Date())
    .orderBy('i.id', 'desc')
    .execute();
  return rows.map((row) => ({ ...row, id: String(row.id), expires_at: new Date(row.expires_at) }));
}

/** Takes an invitation back. @throws UserError when it is not open any more */
export async function cancelInvite(
  tables: Platform,
  by: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const removed = await tables
    .deleteFrom('crm_invites')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('used_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (removed === undefined) throw new UserError('that invitation is not open any more');
  await note(tables, by, { organization, action: 'delete', object: 'invite', objectId: id });
}

/** One text for every invitation that cannot be used, so that it tells nothing of who was invited. */
const unusable = 'this invitation cannot be used: the code is wrong, it has expired, or it was used already';

/**
 * Accepts an invitation: makes the user, or gives a known user who proves the password a further membership.
 * @param answer `known` says whether a user with that address proved to be the one who accepts
 * @throws UserError, with one text, for every invitation that cannot be used
 */
export async function acceptInvite(
  tables: Platform,
  by: Omit<Actor, 'kind' | 'id'>,
  answer: {
    readonly publicId: string;
    readonly code: string;
    readonly password: string;
    readonly verify: (email: string) => Promise<boolean>;
  },
): Promise<NewMember & { readonly email: string; readonly organization: string }> {
  if (!/^[\w-]{1,64}$/.test(answer.publicId)) throw new UserError(unusable);
  const row = await tables
    .selectFrom('crm_invites as i')
    .leftJoin('crm_users as u', 'u.email', 'i.email')
    .select(['i.organization_id', 'i.id', 'i.code_hash', 'i.email', 'i.profile_id', 'u.id as user_id'])
    .where('i.public_id', '=', answer.publicId)
    .where('i.used_at', 'is', null)
    .where('i.expires_at', '>', new Date())
    .executeTakeFirst();
  const code = answer.code.trim().toUpperCase();
  if (row === undefined || !isSecret(code, row.code_hash)) throw new UserError(unusable);
  if (row.user_id !== null && !(await answer.verify(row.email))) {
    throw new UserError(`${row.email} is known here already: give the password that goes with it`);
  }
  // Only one of two acceptances at once gets the row.
  const used = await tables
    .updateTable('crm_invites')
    .set({ used_at: new Date() })
    .where('organization_id', '=', row.organization_id)
    .where('id', '=', row.id)
    .where('used_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (used === undefined) throw new UserError(unusable);
  const organization = String(row.organization_id);
  const member = await createUser(
    tables,
    { ...by, kind: 'user', id: row.user_id === null ? null : String(row.user_id) },
    {
      email: row.email,
      organization,
      profile: String(row.profile_id),
      password: () => answer.password,
    },
  );
  return { ...member, email: row.email, organization };
}
