import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { generateCode, generatePublicId, hashSecret, isSecret } from '../secrets/index.ts';
import { IdentityError } from './identity-error.ts';
import { markEmailProven, resetPassword } from './operator-users.ts';
import { enabledUsers, findUsers } from './users.ts';

/** Lifetime of a link mailed to the user, in milliseconds. */
const mailedLinkMs = 3_600_000;
/** Lifetime of a link that an administrator passes on to the user, in hours. */
export const adminLinkHours = 24;
const adminLinkMs = adminLinkHours * 3_600_000;
/** Maximum number of links mailed to one user within an hour. */
const maxMailed = 3;

/** A reset link and the code that unlocks it. They are separate so that URLs do not contain secrets. */
interface ResetLink {
  readonly publicId: string;
  readonly code: string;
}

/** A reset link to be mailed. */
interface MailedReset extends ResetLink {
  /** Name of an unverified user's organization; null for a verified user. */
  readonly organization: string | null;
  /** The language in the user's account; null if it is not chosen. */
  readonly language: string | null;
}

/**
 * Creates reset links for an email address: one for the verified user or, if it does not exist, one for every
 * unverified user. Skips users who are disabled or have reached the limit on mailed links.
 */
export async function createMailedResets(tables: Tables, email: string): Promise<MailedReset[]> {
  const users = await enabledUsers(tables, email);
  const [first] = users;
  const links: MailedReset[] = [];
  for (const user of first?.verified === true ? [first] : users) {
    const recentResets = await tables
      .selectFrom('crm_resets')
      .select('id')
      .where('user_id', '=', user.id)
      .where('organization_id', 'is', null)
      .where('created_at', '>', new Date(Date.now() - mailedLinkMs))
      .execute();
    if (recentResets.length >= maxMailed) continue;
    const organization =
      user.organization === null
        ? undefined
        : await tables
            .selectFrom('crm_organizations')
            .select('name')
            .where('id', '=', user.organization)
            .executeTakeFirst();
    links.push({
      ...(await insertReset(tables, user.id, null, mailedLinkMs)),
      organization: organization?.name ?? null,
      language: user.language,
    });
  }
  return links;
}

/**
 * Creates a reset link that an administrator passes on to a member.
 * @throws UserError unless the user is enabled and can belong only to this organization
 */
export async function createMemberReset(
  tables: Tables,
  actor: Actor,
  organization: string,
  user: string,
): Promise<ResetLink & { readonly email: string }> {
  const row = await tables
    .selectFrom('crm_memberships as m')
    .innerJoin('crm_users as u', 'u.id', 'm.user_id')
    .select(['u.email', 'u.organization_id', 'u.disabled_at'])
    .where('m.organization_id', '=', organization)
    .where('m.user_id', '=', user)
    .executeTakeFirst();
  if (row === undefined) throw new IdentityError('this member does not exist', { kind: 'memberMissing' });
  if (row.organization_id !== organization) throw new IdentityError(notAloneText, { kind: 'verifiedUser' });
  if (row.disabled_at !== null) throw new IdentityError('this user is disabled', { kind: 'userDisabled' });
  const link = await insertReset(tables, user, organization, adminLinkMs);
  await recordChanges(tables, actor, {
    organization,
    action: 'create reset link',
    object: 'member',
    objectId: user,
  });
  return { ...link, email: row.email };
}

const notAloneText =
  'administrators cannot reset the password of a verified user. The user can use "Forgot your password?" or ask the operator of this instance.';

async function insertReset(
  tables: Tables,
  user_id: string,
  organization_id: string | null,
  lifetimeMs: number,
): Promise<ResetLink> {
  const [publicId, code] = [generatePublicId(), generateCode()];
  await tables
    .deleteFrom('crm_resets')
    .where('expires_at', '<', new Date(Date.now() - adminLinkMs))
    .execute();
  await tables
    .insertInto('crm_resets')
    .values({
      public_id: publicId,
      code_hash: hashSecret(code),
      user_id,
      organization_id,
      expires_at: new Date(Date.now() + lifetimeMs),
      used_at: null,
    })
    .execute();
  return { publicId, code };
}

/** Returns the error for every unusable link, regardless of the reason. */
const unusableLink = (): IdentityError =>
  new IdentityError(
    'this link cannot be used: the code is wrong, it has expired, or it has already been used',
    { kind: 'unusableLink' },
  );

/**
 * Uses a reset link to change a user's password, and ends all of the user's sessions. A mailed code also
 * verifies the email address.
 * @throws UserError with the same message for every unusable link, or with another message if the password is
 * not acceptable
 */
export async function redeemReset(
  tables: Tables,
  visitor: Omit<Actor, 'kind' | 'id' | 'name'>,
  input: ResetLink & { readonly password: string },
): Promise<void> {
  if (!/^[\w-]{1,64}$/.test(input.publicId)) throw unusableLink();
  const row = await tables
    .selectFrom('crm_resets as r')
    .innerJoin('crm_users as u', 'u.id', 'r.user_id')
    .select(['r.id', 'r.code_hash', 'r.organization_id', 'u.id as user', 'u.email', 'u.disabled_at'])
    .select('u.organization_id as home')
    .where('r.public_id', '=', input.publicId)
    .where('r.used_at', 'is', null)
    .where('r.expires_at', '>', new Date())
    .executeTakeFirst();
  if (row === undefined || !isSecret(input.code.trim().toUpperCase(), row.code_hash)) {
    throw unusableLink();
  }
  // An administrator's link is void as soon as the user belongs to other organizations too.
  const isMailed = row.organization_id === null;
  if (row.disabled_at !== null || (!isMailed && row.home !== row.organization_id)) throw unusableLink();
  const rows = await tables
    .updateTable('crm_resets')
    .set({ used_at: new Date() })
    .where('user_id', '=', row.user)
    .where('used_at', 'is', null)
    .returning('id')
    .execute();
  if (!rows.some(({ id }) => id === row.id)) throw unusableLink();
  const user = { id: row.user, email: row.email };
  await resetPassword(
    tables,
    { ...visitor, kind: 'user', id: user.id, name: user.email },
    user,
    input.password,
  );
  if (!isMailed || row.home === null) return;
  const hasVerifiedUser = (await findUsers(tables, row.email)).some((other) => other.verified);
  if (!hasVerifiedUser) await markEmailProven(tables, user.id);
}
