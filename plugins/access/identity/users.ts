import { domainToASCII } from 'node:url';
import { type Actor, recordChanges } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { displayName, type Tables } from '../../../engine/tables/index.ts';
import { IdentityError } from './identity-error.ts';
import { checkNewPassword, checkPassword, hashPassword, isOutdated } from './passwords.ts';

/** Matches an unquoted local part: RFC 5322 atext characters, separated by dots. */
const localPart = /^[a-z0-9!#$%&\x27*+/=?^_\x60{|}~-]+(?:\.[a-z0-9!#$%&\x27*+/=?^_\x60{|}~-]+)*$/;
const domainPart = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/;

/**
 * Normalizes an email address to the form that is stored, looked up and rate limited: NFKC, lower case, and
 * an ASCII domain (IDNA). Rejects non-ASCII local parts, because some of their characters look identical.
 * @returns undefined if the string is not an email address
 */
export function parseEmail(text: string): string | undefined {
  // No email address is this long. Rejected early, because normalization takes time proportional to the length.
  if (text.length > 1000) return undefined;
  const normal = text.normalize('NFKC').trim().toLowerCase();
  const at = normal.lastIndexOf('@');
  const local = normal.slice(0, Math.max(at, 0));
  const domainText = normal.slice(at + 1).replace(/[.\u3002]$/, '');
  // The URL parser silently drops some characters from host names, so they are rejected first.
  const domain = /[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}/?#@:\\%]/u.test(domainText)
    ? ''
    : domainToASCII(domainText);
  const email = `${local}@${domain}`;
  return localPart.test(local) && domainPart.test(domain) && !domain.includes('..') && email.length <= 254
    ? email
    : undefined;
}

/** Normalizes an email address in the same way as {@link parseEmail}. @throws UserError if it is not valid */
export function normalEmail(text: string): string {
  const email = parseEmail(text);
  if (email === undefined)
    throw new IdentityError('this is not a valid email address', { kind: 'invalidEmail' });
  return email;
}

/** Maximum length of a person's name, in characters. */
export const maxPersonName = 100;

/** Validates and trims a person's name. @throws UserError if it cannot be stored and displayed */
export const personName = (input: string): string => displayName(input, 'the name', maxPersonName);

/** A user: an email address with a password. */
export interface User {
  readonly id: string;
  readonly email: string;
  /** The person's name; null if it has not been entered. */
  readonly name: string | null;
  /** The language of pages and emails; null if the browser decides. */
  readonly language: string | null;
  /** Whether the owner or the operator has verified the email address. */
  readonly verified: boolean;
  /** The only organization that an unverified user can belong to; null for a verified user. */
  readonly organization: string | null;
  readonly disabled: boolean;
  readonly passwordHash: string;
  readonly tokenVersion: number;
}

/** Lists the users with an email address, starting with the verified user. @param email must be normalized */
export async function findUsers(tables: Tables, email: string): Promise<User[]> {
  const rows = await selectUsers(tables).where('email', '=', email).orderBy('id').execute();
  return rows.map(userOf).sort((a, b) => Number(b.verified) - Number(a.verified));
}

/** Finds a user by ID. Returns undefined if the user does not exist. */
export async function findUser(tables: Tables, id: string): Promise<User | undefined> {
  const row = await selectUsers(tables).where('id', '=', id).executeTakeFirst();
  return row && userOf(row);
}

const selectUsers = (tables: Tables) =>
  tables
    .selectFrom('crm_users')
    .select(['id', 'email', 'name', 'language', 'verified_at', 'organization_id', 'disabled_at'])
    .select(['password_hash', 'token_version']);

const userOf = (row: Awaited<ReturnType<ReturnType<typeof selectUsers>['execute']>>[number]): User => ({
  id: row.id,
  email: row.email,
  name: row.name,
  language: row.language,
  verified: row.verified_at !== null,
  organization: row.organization_id,
  disabled: row.disabled_at !== null,
  passwordHash: row.password_hash,
  tokenVersion: row.token_version,
});

/**
 * Returns the user to whom an email address refers in an organization: the verified user or, if there is no
 * such user, the organization's unverified user. Unverified users in other organizations are excluded,
 * because they may belong to different people.
 */
export async function userFor(
  tables: Tables,
  email: string,
  organization: string,
): Promise<User | undefined> {
  const users = await findUsers(tables, email);
  return users.find((user) => user.verified || user.organization === organization);
}

/** A user to create, with their first membership. */
interface NewUser {
  readonly email: string;
  /** The person's name, if it is known. */
  readonly name?: string | undefined;
  readonly organization: string;
  readonly profile: string;
  readonly password: () => string;
  /** Whether the email address is verified. */
  readonly verified?: boolean;
}

/**
 * Creates a user with a membership.
 * @returns the user's ID
 * @throws UserError if the email address or the name is not valid, or if the email address refers to an existing user in
 * the organization
 */
export async function createUser(tables: Tables, actor: Actor, user: NewUser): Promise<string> {
  const { organization, profile, verified = false } = user;
  const email = normalEmail(user.email);
  const existing = await userFor(tables, email, organization);
  if (existing !== undefined)
    throw new IdentityError(`a user with the email address ${email} already exists`, {
      kind: 'userExists',
      email,
    });
  const password = user.password();
  await checkNewPassword(password, email);
  const row = await tables
    .insertInto('crm_users')
    .values({
      email,
      name: user.name === undefined ? null : personName(user.name),
      password_hash: await hashFor(tables, { email }, password),
      verified_at: verified ? new Date() : null,
      organization_id: verified ? null : organization,
      disabled_at: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined)
    throw new IdentityError(`${email} was just added by another request. Try again.`, {
      kind: 'userJustAdded',
      email,
    });
  const id = row.id;
  await addMembership(tables, actor, { user: { id, email }, organization, profile });
  return id;
}

/**
 * Adds an existing user to an organization.
 * @returns the user's ID
 * @throws UserError if no user with the email address can be added, or the user is already a member
 */
export async function addExistingUser(
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
        : `user ${existing.id} (${email}) is unverified and can only belong to the organization that created it. Verify it first with "crm user verify ${existing.id}".`,
    );
  }
  await addMembership(tables, actor, { user, organization, profile });
  return user.id;
}

/** Adds a user to an organization. @throws UserError if the user is already a member */
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
  if (membership === undefined)
    throw new IdentityError(`${user.email} is already a member of this organization`, {
      kind: 'alreadyMember',
      email: user.email,
    });
  // A user who accepts an invitation acts as the new member.
  const effectiveActor = actor.kind === 'user' ? { ...actor, id: actor.id ?? user.id } : actor;
  await recordChanges(tables, effectiveActor, {
    organization,
    action: 'create',
    object: 'member',
    objectId: user.id,
  });
}

/** Changes a person's name. @throws UserError if the name is not valid */
export async function changeName(tables: Tables, user: string, name: string): Promise<void> {
  await tables
    .updateTable('crm_users')
    .set({ name: personName(name) })
    .where('id', '=', user)
    .execute();
}

/** Changes the language of a user's pages and emails. @param language null if the browser decides */
export async function changeLanguage(tables: Tables, user: string, language: string | null): Promise<void> {
  await tables.updateTable('crm_users').set({ language }).where('id', '=', user).execute();
}

/** A user whose credential was verified. */
export interface AuthenticatedUser {
  readonly id: string;
  readonly email: string;
  readonly name: string | null;
  readonly tokenVersion: number;
}

/** Lists the enabled users with an email address, which does not have to be normalized. */
export async function enabledUsers(tables: Tables, email: string): Promise<User[]> {
  const normal = parseEmail(email);
  const users = normal === undefined ? [] : await findUsers(tables, normal);
  return users.filter((user) => !user.disabled);
}

/**
 * Returns the users whose password matches, in the same order. Takes the same time if no user's password
 * matches.
 */
export async function usersWithPassword(
  tables: Tables,
  users: readonly User[],
  password: string,
): Promise<AuthenticatedUser[]> {
  const matches = await checkPassword(
    password,
    users.map((user) => user.passwordHash),
  );
  const matchingUsers = users.filter((_, index) => matches[index]);
  for (const user of matchingUsers) {
    if (isOutdated(user.passwordHash)) await storePassword(tables, user, password);
  }
  return matchingUsers.map(({ id, email, name, tokenVersion }) => ({ id, email, name, tokenVersion }));
}

/** Changes a user's password without ending sessions. @throws UserError if the password is not acceptable */
export async function changePassword(
  tables: Tables,
  user: { readonly id: string; readonly email: string },
  password: string,
): Promise<void> {
  await checkNewPassword(password, user.email);
  await storePassword(tables, user, password);
}

async function storePassword(
  tables: Tables,
  user: { readonly id: string; readonly email: string },
  password: string,
): Promise<void> {
  const password_hash = await hashFor(tables, user, password);
  await tables.updateTable('crm_users').set({ password_hash }).where('id', '=', user.id).execute();
}

/** Hashes a user's password with the salt of other users with the same email address. */
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
