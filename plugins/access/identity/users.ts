import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { normalEmail, parseEmail } from './emails.ts';
import { checkNewPassword, checkPassword, hashPassword, isOutdated } from './passwords.ts';

/** A user: an e-mail address with a password. */
export interface User {
  readonly id: string;
  readonly email: string;
  /** Whether its holder has proven the address, or the operator has verified it. */
  readonly verified: boolean;
  /** The one organization that an unverified user may belong to; null for a verified user. */
  readonly organization: string | null;
  readonly disabled: boolean;
  readonly passwordHash: string;
  readonly tokenVersion: number;
}

/** The users of an address, the verified one first. @param email in normal form */
export async function findUsers(tables: Tables, email: string): Promise<User[]> {
  const rows = await selectUsers(tables).where('email', '=', email).orderBy('id').execute();
  return rows.map(userOf).sort((a, b) => Number(b.verified) - Number(a.verified));
}

/** Returns the user with an ID, or undefined. */
export async function findUser(tables: Tables, id: string): Promise<User | undefined> {
  const row = await selectUsers(tables).where('id', '=', id).executeTakeFirst();
  return row && userOf(row);
}

const selectUsers = (tables: Tables) =>
  tables
    .selectFrom('crm_users')
    .select(['id', 'email', 'verified_at', 'organization_id', 'disabled_at'])
    .select(['password_hash', 'token_version']);

const userOf = (row: Awaited<ReturnType<ReturnType<typeof selectUsers>['execute']>>[number]): User => ({
  id: row.id,
  email: row.email,
  verified: row.verified_at !== null,
  organization: row.organization_id,
  disabled: row.disabled_at !== null,
  passwordHash: row.password_hash,
  tokenVersion: row.token_version,
});

/**
 * The user that an address refers to in an organization: the verified one, or otherwise the organization's own. Unverified
 * users of other organizations are left out: their holder may be a different person.
 */
export async function userFor(
  tables: Tables,
  email: string,
  organization: string,
): Promise<User | undefined> {
  const users = await findUsers(tables, email);
  return users.find((user) => user.verified || user.organization === organization);
}

/** A user to create, with its first membership. */
export interface NewUser {
  readonly email: string;
  readonly organization: string;
  readonly profile: string;
  readonly password: () => string;
  /** Whether the address is verified. */
  readonly verified?: boolean;
}

/**
 * Creates a user with a membership.
 * @returns its id
 * @throws UserError when the e-mail is not valid, or refers to an existing user in the organization
 */
export async function createUser(tables: Tables, actor: Actor, user: NewUser): Promise<string> {
  const { organization, profile, verified = false } = user;
  const email = normalEmail(user.email);
  const known = await userFor(tables, email, organization);
  if (known !== undefined) throw new UserError(`${email} already has a user here`);
  const password = user.password();
  await checkNewPassword(password, email);
  const row = await tables
    .insertInto('crm_users')
    .values({
      email,
      password_hash: await hashFor(tables, { email }, password),
      verified_at: verified ? new Date() : null,
      organization_id: verified ? null : organization,
      disabled_at: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`${email} was just added by another request. Try again.`);
  const id = row.id;
  await addMembership(tables, actor, { user: { id, email }, organization, profile });
  return id;
}

/**
 * Gives an existing user a further membership.
 * @returns its id
 * @throws UserError when the address refers to no user that the organization may add, or to a member
 */
export async function addExisting(
  tables: Tables,
  actor: Actor,
  member: { readonly email: string; readonly organization: string; readonly profile: string },
): Promise<string> {
  const { organization, profile } = member;
  const email = normalEmail(member.email);
  const user = await userFor(tables, email, organization);
  if (user === undefined) {
    const [existing] = await findUsers(tables, email);
    throw new UserError(
      existing === undefined
        ? `user ${email} does not exist`
        : `user ${existing.id} of ${email} is unverified and stays in the organization that made it: verify it first ("user verify ${existing.id}")`,
    );
  }
  await addMembership(tables, actor, { user, organization, profile });
  return user.id;
}

/** Makes a user a member. @throws UserError when it is one already */
export async function addMembership(
  tables: Tables,
  actor: Actor,
  member: {
    readonly user: Pick<User, 'id' | 'email'>;
    readonly organization: string;
    readonly profile: string;
  },
): Promise<void> {
  const { user, organization, profile } = member;
  const membership = await tables
    .insertInto('crm_memberships')
    .values({ organization_id: organization, user_id: user.id, profile_id: profile })
    .onConflict((conflict) => conflict.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  if (membership === undefined) throw new UserError(`${user.email} is already a member of this organization`);
  // A person who accepts an invitation acts as the new member.
  const acting = actor.kind === 'user' ? { ...actor, id: actor.id ?? user.id } : actor;
  await recordChanges(tables, acting, {
    organization,
    action: 'create',
    object: 'member',
    objectId: user.id,
  });
}

/** A user whose password matched. */
export interface KnownUser {
  readonly id: string;
  readonly email: string;
  readonly tokenVersion: number;
}

/** The enabled users of an address, in any spelling of it. */
export async function enabledUsers(tables: Tables, email: string): Promise<User[]> {
  const normal = parseEmail(email);
  const users = normal === undefined ? [] : await findUsers(tables, normal);
  return users.filter((user) => !user.disabled);
}

/** The users that a password matches, in their order; takes the same time if none matches. */
export async function usersWithPassword(
  tables: Tables,
  users: readonly User[],
  password: string,
): Promise<KnownUser[]> {
  const right = await checkPassword(
    password,
    users.map((user) => user.passwordHash),
  );
  const fitting = users.filter((_, index) => right[index]);
  for (const user of fitting) {
    if (isOutdated(user.passwordHash)) await storePassword(tables, user, password);
  }
  return fitting.map(({ id, email, tokenVersion }) => ({ id, email, tokenVersion }));
}

/**
 * Changes the password of a user. Sessions are not touched.
 * @throws UserError when the password is not acceptable
 */
export async function changePassword(
  tables: Tables,
  user: { readonly id: string; readonly email: string },
  wanted: string,
): Promise<void> {
  await checkNewPassword(wanted, user.email);
  await storePassword(tables, user, wanted);
}

async function storePassword(
  tables: Tables,
  user: { readonly id: string; readonly email: string },
  password: string,
): Promise<void> {
  const password_hash = await hashFor(tables, user, password);
  await tables.updateTable('crm_users').set({ password_hash }).where('id', '=', user.id).execute();
}

/** The hash of a password for a user, with the salt of other users of the same address. */
async function hashFor(
  tables: Tables,
  { id, email }: { readonly id?: string; readonly email: string },
  password: string,
): Promise<string> {
  const others = (await findUsers(tables, email)).filter((user) => user.id !== id);
  return hashPassword(
    password,
    others.map((user) => user.passwordHash),
  );
}
