import { randomBytes } from 'node:crypto';
import { hash } from 'argon2';
import { UserError } from '../errors.ts';
import type { Platform } from './handle.ts';

/** OWASP's current minimum for argon2id: 19 MiB, two passes, one lane. */
const argon2 = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;

/** A password nobody has to think of: 128 bits. */
export const makePassword = (): string => randomBytes(16).toString('base64url');

/** What {@link createUser} did. */
export interface NewMember {
  readonly id: string;
  /** False where the e-mail was known: the user has a further membership and keeps the password. */
  readonly created: boolean;
}

/**
 * Makes a user with a membership, or gives a known user a further one.
 * @param password asked for only where the user is new
 * @throws UserError when the e-mail is not valid or the user is a member already
 */
export async function createUser(
  tables: Platform,
  user: {
    readonly email: string;
    readonly organization: string;
    readonly profile: string;
    readonly password: () => string;
  },
): Promise<NewMember> {
  const email = user.email.trim().toLowerCase();
  if (!/^[^\s@]+@[^\s@]+$/.test(email) || email.length > 254 || email.includes('\0')) {
    throw new UserError(`"${user.email}" is no e-mail address`);
  }
  const known = await tables
    .selectFrom('crm_users')
    .select('id')
    .where('email', '=', email)
    .executeTakeFirst();
  const id = known?.id ?? (await insertUser(tables, email, user.password()));
  const membership = await tables
    .insertInto('crm_memberships')
    .values({ organization_id: user.organization, user_id: String(id), profile_id: user.profile })
    .onConflict((conflict) => conflict.doNothing())
    .returning('user_id')
    .executeTakeFirst();
  if (membership === undefined) throw new UserError(`${email} is a member of this organization already`);
  return { id: String(id), created: known === undefined };
}

async function insertUser(tables: Platform, email: string, password: string): Promise<string> {
  const length = [...password].length;
  if (length < 8 || length > 1000) throw new UserError('a password has 8 to 1,000 characters');
  const password_hash = await hash(password.normalize('NFC'), argon2);
  const row = await tables
    .insertInto('crm_users')
    .values({ email, password_hash })
    .returning('id')
    .executeTakeFirstOrThrow();
  return String(row.id);
}
