import { UserError } from '../errors.ts';
import { isStorable } from '../fields/index.ts';
import { type Actor, note } from './activity.ts';
import type { Platform } from './handle.ts';
import { checkPassword, hashPassword } from './passwords.ts';

/** What {@link createUser} did. */
export interface NewMember {
  readonly id: string;
  /** False where the e-mail was known: the user has a further membership and keeps the password. */
  readonly created: boolean;
}

/** An e-mail address as it is stored and compared. @throws UserError where it is none */
export function normalEmail(text: string): string {
  const email = text.trim().toLowerCase();
  if (!/^[^\s@]+@[^\s@]+$/.test(email) || email.length > 254 || !isStorable(email)) {
    throw new UserError('that is no e-mail address');
  }
  return email;
}

/**
 * Makes a user with a membership, or gives a known user a further one.
 * @param user `password` is asked for only where the user is new
 * @throws UserError when the e-mail is not valid or the user is a member already
 */
export async function createUser(
  tables: Platform,
  by: Actor,
  user: {
    readonly email: string;
    readonly organization: string;
    readonly profile: string;
    readonly password: () => string;
  },
): Promise<NewMember> {
  const email = normalEmail(user.email);
  const known = await findUser(tables, email);
  const id = known?.id ?? (await insertUser(tables, email, user.password()));
  const membership = await tables
    .insertInto('crm_memberships')
    .values({ organization_id: user.organization, user_id: id, profile_id: user.profile })
    .onConflict((conflict) => conflict.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  if (membership === undefined) throw new UserError(`${email} is a member of this organization already`);
  // Who accepts an invitation without an account acts as the user that this makes.
  const actor = by.kind === 'user' ? { ...by, id: by.id ?? id } : by;
  await note(tables, actor, {
    organization: user.organization,
    action: 'create',
    object: 'member',
    objectId: id,
  });
  return { id, created: known === undefined };
}

/** A user by e-mail address, in any case. */
async function findUser(
  tables: Platform,
  email: string,
): Promise<{ id: string; password_hash: string; token_version: number } | undefined> {
  const row = await tables
    .selectFrom('crm_users')
    .select(['id', 'password_hash', 'token_version'])
    .where('email', '=', email)
    .executeTakeFirst();
  return row === undefined ? undefined : { ...row, id: String(row.id) };
}

async function insertUser(tables: Platform, email: string, password: string): Promise<string> {
  const row = await tables
    .insertInto('crm_users')
    .values({ email, password_hash: await hashPassword(password) })
    .onConflict((conflict) => conflict.column('email').doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new UserError(`${email} has just become known; try again`);
  return String(row.id);
}

/** A user whose password was right. */
export interface KnownUser {
  readonly id: string;
  readonly tokenVersion: number;
}

/** The user with an e-mail address and password; undefined, after the same time, whatever is wrong. */
export async function verifyUser(
  tables: Platform,
  email: string,
  password: string,
): Promise<KnownUser | undefined> {
  const normal = email.trim().toLowerCase();
  const user = isStorable(normal) ? await findUser(tables, normal) : undefined;
  const { right, rehashed } = await checkPassword(password, user?.password_hash);
  if (user === undefined || !right) return undefined;
  if (rehashed !== undefined) await storeHash(tables, user.id, rehashed);
  return { id: user.id, tokenVersion: user.token_version };
}

/**
 * Gives a user another password. Sessions are not touched.
 * @throws UserError when the password is not acceptable
 */
export async function changePassword(
  tables: Platform,
  user: { readonly id: string },
  wanted: string,
): Promise<void> {
  await storeHash(tables, user.id, await hashPassword(wanted));
}

async function storeHash(tables: Platform, id: string, password_hash: string): Promise<void> {
  await tables.updateTable('crm_users').set({ password_hash }).where('id', '=', id).execute();
}
