import { type Actor, recordChanges } from '../../engine/effects/index.ts';
import { UserError } from '../../engine/errors.ts';
import type { Tables } from '../../engine/tables/index.ts';
import { normalEmail, parseEmail } from './emails.ts';
import { checkChosen, checkPassword, hashPassword, isOutdated } from './passwords.ts';

/** A user: an e-mail address with a password. */
export interface User {
  readonly id: string;
  readonly email: string;
  /** Whether its holder has proven the address, or the operator vouches for them. */
  readonly verified: boolean;
  /** The one organization that an unverified user may belong to; null where it is verified. */
  readonly organization: string | null;
  readonly disabled: boolean;
  readonly passwordHash: string;
  readonly tokenVersion: number;
}

/** The users of an address, the verified one first. @param email in normal form */
export async function findUsers(tables: Tables, email: string): Promise<User[]> {
  const rows = await tables
    .selectFrom('crm_users')
    .select([
      'id',
      'email',
      'verified_at',
      'organization_id',
      'disabled_at',
      'password_hash',
      'token_version',
    ])
    .where('email', '=', email)
    .orderBy('id')
    .execute();
  const users = rows.map((row) => ({
    id: row.id,
    email: row.email,
    verified: row.verified_at !== null,
    organization: row.organization_id,
    disabled: row.disabled_at !== null,
    passwordHash: row.password_hash,
    tokenVersion: row.token_version,
  }));
  return users.sort((a, b) => Number(b.verified) - Number(a.verified));
}

/**
 * The user that an organization means by an address: the verified one, else its own. Unverified users that
 * other organizations made are not: whoever holds one need not be the person at the address.
 */
export async function userFor(
  tables: Tables,
  email: string,
  organization: string,
): Promise<User | undefined> {
  const users = await findUsers(tables, email);
  return users.find((user) => user.verified || user.organization === organization);
}

/** A user to be made, with its first membership. */
export interface NewUser {
  readonly email: string;
  readonly organization: string;
  readonly profile: string;
  readonly password: () => string;
  /** Whether the address is proven. */
  readonly verified?: boolean;
}

/**
 * Makes a user with a membership.
 * @returns its id
 * @throws UserError when the e-mail is not valid, or the organization can mean an existing user by it
 */
export async function createUser(tables: Tables, by: Actor, user: NewUser): Promise<string> {
  const { organization, profile, verified = false } = user;
  const email = normalEmail(user.email);
  const known = await userFor(tables, email, organization);
  if (known !== undefined) throw new UserError(`${email} is known already`);
  const password = user.password();
  await checkChosen(password, email);
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
  if (row === undefined) throw new UserError(`${email} has just become known; try again`);
  const id = row.id;
  await addMembership(tables, by, { user: { id, email }, organization, profile });
  return id;
}

/**
 * Gives an existing user a further membership.
 * @returns its id
 * @throws UserError when the organization cannot mean it by this address, or it is a member already
 */
export async function addExisting(
  tables: Tables,
  by: Actor,
  member: { readonly email: string; readonly organization: string; readonly profile: string },
): Promise<string> {
  const { organization, profile } = member;
  const email = normalEmail(member.email);
  const user = await userFor(tables, email, organization);
  if (user === undefined) {
    const [other] = await findUsers(tables, email);
    throw new UserError(
      other === undefined
        ? `there is no user ${email}`
        : `user ${other.id} of ${email} is unverified and stays in the organization that made it: verify it first ("user verify ${other.id}")`,
    );
  }
  await addMembership(tables, by, { user, organization, profile });
  return user.id;
}

/** Makes a user a member. @throws UserError when it is one already */
export async function addMembership(
  tables: Tables,
  by: Actor,
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
  if (membership === undefined) throw new UserError(`${user.email} is a member of this organization already`);
  // Who accepts an invitation acts as the user that this concerns.
  const actor = by.kind === 'user' ? { ...by, id: by.id ?? user.id } : by;
  await recordChanges(tables, actor, { organization, action: 'create', object: 'member', objectId: user.id });
}

/** A user whose password was right. */
export interface KnownUser {
  readonly id: string;
  readonly email: string;
  readonly tokenVersion: number;
}

/** The users of an address, however it is written, that people may log in with. */
export async function enabledUsers(tables: Tables, email: string): Promise<User[]> {
  const normal = parseEmail(email);
  const users = normal === undefined ? [] : await findUsers(tables, normal);
  return users.filter((user) => !user.disabled);
}

/** Those of some users that a password fits, in their order; none, after the same time, whatever is wrong. */
export async function withPassword(
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
 * Gives a user another password. Sessions are not touched.
 * @throws UserError when the password is not acceptable
 */
export async function changePassword(
  tables: Tables,
  user: { readonly id: string; readonly email: string },
  wanted: string,
): Promise<void> {
  await checkChosen(wanted, user.email);
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
