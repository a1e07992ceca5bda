import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { hashSecret, isSecret, makeCode, makePublicId } from '../secrets/index.ts';
import { markEmailProven, resetPassword } from './operator-users.ts';
import { enabledUsers, findUsers } from './users.ts';

/** How long a link is valid: mailed to the user, and passed on by an administrator. */
const mailedMs = 3_600_000;
const passedOnMs = 24 * 3_600_000;
/** Links mailed to one user within an hour. */
const maxMailed = 3;

/** A link and the code that opens it: URLs contain no secret. */
export interface ResetLink {
  readonly publicId: string;
  readonly code: string;
}

/** A link to mail. */
export interface MailedReset extends ResetLink {
  /** Name of the organization of an unverified user; null for a verified user. */
  readonly organization: string | null;
}

/**
 * Creates links to mail to an address: for the verified user, or otherwise for every unverified
 * one. None for a user that was mailed several within the hour, or is disabled.
 */
export async function mailedResets(tables: Tables, email: string): Promise<MailedReset[]> {
  const users = await enabledUsers(tables, email);
  const [first] = users;
  const made: MailedReset[] = [];
  for (const user of first?.verified === true ? [first] : users) {
    const recent = await tables
      .selectFrom('crm_resets')
      .select('id')
      .where('user_id', '=', user.id)
      .where('organization_id', 'is', null)
      .where('created_at', '>', new Date(Date.now() - mailedMs))
      .execute();
    if (recent.length >= maxMailed) continue;
    const organization =
      user.organization === null
        ? undefined
        : await tables
            .selectFrom('crm_organizations')
            .select('name')
            .where('id', '=', user.organization)
            .executeTakeFirst();
    made.push({
      ...(await insertReset(tables, user.id, null, mailedMs)),
      organization: organization?.name ?? null,
    });
  }
  return made;
}

/**
 * Creates a link that an administrator passes on to a member.
 * @throws UserError unless the user belongs to this organization alone
 */
export async function memberReset(
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
  if (row === undefined) throw new UserError('this member does not exist');
  if (row.organization_id === null || row.organization_id !== organization) throw new UserError(notAlone);
  if (row.disabled_at !== null) throw new UserError('this user is disabled');
  const link = await insertReset(tables, user, organization, passedOnMs);
  await recordChanges(tables, actor, {
    organization,
    action: 'create reset link',
    object: 'member',
    objectId: user,
  });
  return { ...link, email: row.email };
}

const notAlone =
  'this user is verified and its holder’s own: they use "Forgot your password?", or ask the operator of this instance';

async function insertReset(
  tables: Tables,
  user_id: string,
  organization_id: string | null,
  lifetimeMs: number,
): Promise<ResetLink> {
  const [publicId, code] = [makePublicId(), makeCode()];
  await tables
    .deleteFrom('crm_resets')
    .where('expires_at', '<', new Date(Date.now() - passedOnMs))
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

/** One text for every link that cannot be used. */
const unusable = 'this link cannot be used: the code is wrong, it has expired, or it was used already';

/**
 * Changes the password of a user and ends its sessions. A mailed code also proves the address.
 * @throws UserError, with one text, for every link that cannot be used; another if the password is not acceptable
 */
export async function useReset(
  tables: Tables,
  visitor: Omit<Actor, 'kind' | 'id' | 'name'>,
  given: ResetLink & { readonly password: string },
): Promise<void> {
  if (!/^[\w-]{1,64}$/.test(given.publicId)) throw new UserError(unusable);
  const row = await tables
    .selectFrom('crm_resets as r')
    .innerJoin('crm_users as u', 'u.id', 'r.user_id')
    .select(['r.id', 'r.code_hash', 'r.organization_id', 'u.id as user', 'u.email', 'u.disabled_at'])
    .select('u.organization_id as home')
    .where('r.public_id', '=', given.publicId)
    .where('r.used_at', 'is', null)
    .where('r.expires_at', '>', new Date())
    .executeTakeFirst();
  if (row === undefined || !isSecret(given.code.trim().toUpperCase(), row.code_hash)) {
    throw new UserError(unusable);
  }
  // An administrator's link is void once the user belongs to other organizations too.
  const mailed = row.organization_id === null;
  if (row.disabled_at !== null || (!mailed && row.home !== row.organization_id))
    throw new UserError(unusable);
  const used = await tables
    .updateTable('crm_resets')
    .set({ used_at: new Date() })
    .where('user_id', '=', row.user)
    .where('used_at', 'is', null)
    .returning('id')
    .execute();
  if (!used.some(({ id }) => id === row.id)) throw new UserError(unusable);
  const user = { id: row.user, email: row.email };
  await resetPassword(
    tables,
    { ...visitor, kind: 'user', id: user.id, name: user.email },
    user,
    given.password,
  );
  if (!mailed || row.home === null) return;
  const verified = (await findUsers(tables, row.email)).some((each) => each.verified);
  if (!verified) await markEmailProven(tables, user.id);
}
