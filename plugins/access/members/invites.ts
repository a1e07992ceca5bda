import { sql } from 'kysely';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { countRows, type RowSource, type Tables } from '../../../engine/tables/index.ts';
import { TranslatedError } from '../../admin-ui/shell/index.ts';
import {
  addMembership,
  changeName,
  changePassword,
  createUser,
  endAllSessions,
  generatePassword,
  markEmailProven,
  normalEmail,
  personLine,
  personName,
  type User,
  userFor,
} from '../identity/index.ts';
import { generateCode, generatePublicId, hashSecret, isSecret } from '../secrets/index.ts';
import { memberRows } from './members.ts';
import { membersTexts } from './texts/index.ts';

/** An invitation as listed for administrators. */
export interface Invite {
  readonly id: string;
  readonly email: string;
  readonly profile: string;
  readonly expires_at: Date;
}

/** A new invitation. */
interface NewInvite {
  readonly id: string;
  /** Normalized email address. */
  readonly email: string;
  readonly publicId: string;
  /** Unlocks the invitation. Only its hash is stored. */
  readonly code: string;
}

/** Number of days for which an invitation is valid. */
export const inviteDays = 7;

/**
 * Creates an invitation. The link identifies the invitation and the code unlocks it, so that URLs do not contain
 * secrets.
 * @throws UserError if the email address is not valid or belongs to a member, or if the name is not valid
 */
export async function invite(
  tables: Tables,
  actor: Actor,
  invitation: {
    readonly organization: string;
    readonly email: string;
    /** The invitee's name, which they can change when they accept the invitation. */
    readonly name?: string | undefined;
    readonly profile: string;
    /** Whether the code is mailed to the email address instead of being shown. */
    readonly mailed?: boolean;
  },
): Promise<NewInvite> {
  const { organization, profile, mailed = false } = invitation;
  const email = normalEmail(invitation.email);
  const where = [sql`u.email = ${email}`];
  if ((await countRows(tables, memberRows, organization, { where })) > 0) {
    throw new TranslatedError(membersTexts.later('alreadyMember', { email }));
  }
  const publicId = generatePublicId();
  const code = generateCode();
  const row = await tables
    .insertInto('crm_invites')
    .values({
      organization_id: organization,
      public_id: publicId,
      code_hash: hashSecret(code),
      email,
      name: invitation.name === undefined ? null : personName(invitation.name),
      profile_id: profile,
      invited_by_id: actor.kind === 'user' ? actor.id : null,
      expires_at: new Date(Date.now() + inviteDays * 86_400_000),
      mailed,
      used_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await recordChanges(tables, actor, {
    organization,
    action: 'create',
    object: 'invite',
    objectId: row.id,
  });
  return { id: row.id, email, publicId, code };
}

/**
 * Replaces the code for an invitation that could not be mailed. The inviter passes on the new code, so using
 * it does not verify the email address.
 * @returns the new code
 */
export async function replaceUnmailedCode(tables: Tables, organization: string, id: string): Promise<string> {
  const code = generateCode();
  await tables
    .updateTable('crm_invites')
    .set({ mailed: false, code_hash: hashSecret(code) })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .execute();
  return code;
}

/** An organization's open invitations, newest first. */
export const inviteRows: RowSource<Invite> = {
  from: `crm_invites i
    join crm_profiles p on p.organization_id = i.organization_id and p.id = i.profile_id`,
  owner: 'i.organization_id',
  where: 'i.used_at is null and i.expires_at > now()',
  columns: { id: 'i.id', email: 'i.email', profile: 'p.name', expires_at: 'i.expires_at' },
  search: ['i.email', 'p.name'],
  order: 'i.id desc',
};

/** Message for an invitation that does not exist, was used or has expired. */
export const closedInvite = membersTexts.later('closedInvitation');

/** Cancels an invitation. @throws UserError if it is no longer open */
export async function cancelInvite(
  tables: Tables,
  actor: Actor,
  organization: string,
  id: string,
): Promise<void> {
  const row = await tables
    .deleteFrom('crm_invites')
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('used_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(closedInvite);
  await recordChanges(tables, actor, { organization, action: 'delete', object: 'invite', objectId: id });
}

/** Returns the error for every unusable invitation. Always the same, so that it does not reveal who was invited. */
const unusable = (): TranslatedError => new TranslatedError(membersTexts.later('unusableInvitation'));

/** Cancels all open invitations in all organizations. @returns the number of canceled invitations */
export async function cancelAllInvites(tables: Tables): Promise<number> {
  const { numDeletedRows } = await tables
    .deleteFrom('crm_invites')
    .where('used_at', 'is', null)
    .executeTakeFirstOrThrow();
  return Number(numDeletedRows);
}

/** An invitation opened with its code. */
export interface OpenInvite {
  readonly organization: string;
  readonly slug: string;
  /** The organization's name. */
  readonly name: string;
  /** The inviter's name and email address; null if the inviter is not a user or was deleted. */
  readonly inviter: string | null;
  readonly id: string;
  readonly email: string;
  /** The invitee's name as entered by the inviter; null if it was not entered. */
  readonly personName: string | null;
  readonly profile: string;
  /** Whether the code was mailed to the email address. */
  readonly mailed: boolean;
  /** The existing user with this email address; undefined if accepting the invitation creates one. */
  readonly user: User | undefined;
}

/** Opens an invitation with its code. @throws UserError with the same message for every unusable invitation */
export async function openInvite(
  tables: Tables,
  { publicId, code }: { readonly publicId: string; readonly code: string },
): Promise<OpenInvite> {
  if (!/^[\w-]{1,64}$/.test(publicId)) throw unusable();
  const row = await tables
    .selectFrom('crm_invites as i')
    .innerJoin('crm_organizations as o', 'o.id', 'i.organization_id')
    .leftJoin('crm_users as u', 'u.id', 'i.invited_by_id')
    .select(['i.organization_id', 'o.slug', 'o.name', 'i.id', 'i.code_hash', 'i.email', 'i.profile_id'])
    .select(['i.mailed', 'i.name as person', 'u.name as inviter_name', 'u.email as inviter_email'])
    .where('i.public_id', '=', publicId)
    .where('i.used_at', 'is', null)
    .where('i.expires_at', '>', new Date())
    .executeTakeFirst();
  if (row === undefined || !isSecret(code.trim().toUpperCase(), row.code_hash)) throw unusable();
  const organization = row.organization_id;
  return {
    organization,
    slug: row.slug,
    name: row.name,
    inviter:
      row.inviter_email === null ? null : personLine({ name: row.inviter_name, email: row.inviter_email }),
    id: row.id,
    email: row.email,
    personName: row.person,
    profile: row.profile_id,
    mailed: row.mailed,
    user: await userFor(tables, row.email, organization),
  };
}

/**
 * Accepts the newest open invitation to a verified email address that does not belong to a user yet. Creates a user
 * with a random password.
 * @returns false if no invitation is open
 */
export async function acceptInviteTo(tables: Tables, actor: Actor, email: string): Promise<boolean> {
  const row = await tables
    .selectFrom('crm_invites')
    .select(['organization_id', 'id', 'profile_id', 'name'])
    .where('email', '=', email)
    .where('used_at', 'is', null)
    .where('expires_at', '>', new Date())
    .orderBy('id', 'desc')
    .executeTakeFirst();
  if (row === undefined || !(await claim(tables, row.organization_id, row.id))) return false;
  const [organization, profile] = [row.organization_id, row.profile_id];
  await createUser(tables, actor, {
    email,
    name: row.name ?? undefined,
    organization,
    profile,
    password: generatePassword,
    verified: true,
  });
  return true;
}

/** Marks an invitation as used. @returns false if a concurrent request has already used it */
async function claim(tables: Tables, organization: string, id: string): Promise<boolean> {
  const row = await tables
    .updateTable('crm_invites')
    .set({ used_at: new Date() })
    .where('organization_id', '=', organization)
    .where('id', '=', id)
    .where('used_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Accepts an invitation. A verified user must enter their password. Otherwise, the password is for this
 * organization's unverified user, who is created if necessary, and a mailed code also verifies the email
 * address. Unverified users in other organizations are ignored, because they may belong to different people.
 * @param input `verifiedUserId` is the ID of the user whose password was verified. `name` replaces the user's name
 * @throws UserError with the same message for every unusable invitation, or if the name is not valid
 */
export async function acceptInvite(
  tables: Tables,
  visitor: Omit<Actor, 'kind' | 'id' | 'name'>,
  input: {
    readonly publicId: string;
    readonly code: string;
    readonly password: string;
    readonly name?: string | undefined;
    readonly verifiedUserId?: string | undefined;
  },
): Promise<void> {
  const { organization, id, email, profile, mailed, user } = await openInvite(tables, input);
  const { name } = input;
  if (user?.disabled === true) throw new TranslatedError(membersTexts.later('userDisabled'));
  if (user?.verified === true && user.id !== input.verifiedUserId) {
    throw new TranslatedError(membersTexts.later('alreadyRegistered', { email }));
  }
  if (!(await claim(tables, organization, id))) throw unusable();
  const actor: Actor = { ...visitor, kind: 'user', id: user?.id ?? null, name: email };
  if (user === undefined) {
    const password = () => input.password;
    await createUser(tables, actor, { email, name, organization, profile, password, verified: mailed });
    return;
  }
  if (name !== undefined) await changeName(tables, user.id, name);
  await addMembership(tables, actor, { user, organization, profile });
  if (user.verified) return;
  await changePassword(tables, user, input.password);
  if (mailed) await markEmailProven(tables, user.id);
  await endAllSessions(tables, actor, user.id, [organization]);
}
