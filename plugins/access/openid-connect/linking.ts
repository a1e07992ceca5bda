import type { Actor } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { organizationId, type Tables } from '../../../engine/tables/index.ts';
import { type TextIn, TranslatedError } from '../../admin-ui/shell/index.ts';
import {
  type AuthenticatedUser,
  changePassword,
  createUser,
  endAllSessions,
  findMemberships,
  findUsers,
  generatePassword,
  linkedUser,
  linkIdentity,
  markEmailProven,
  parseEmail,
  recordEverywhere,
  type User,
} from '../identity/index.ts';
import { acceptInviteTo } from '../members/index.ts';
import { profileId } from '../profiles/index.ts';
import type { ProviderSettings } from './providers.ts';
import { openIdTexts } from './texts/index.ts';

const { later } = openIdTexts;

/** A provider's claims about a user. */
export interface ProviderClaims {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  /** Whether the provider has verified the email address. */
  readonly isVerified: boolean;
  /** Whether the instance is read-only. Users who are already linked can still log in. */
  readonly isReadOnly: boolean;
}

/**
 * Finds the user for a login at a provider, in a transaction: the linked user, the user with the verified email
 * address or, if the settings allow it, a new user.
 * @throws UserError with a message for the user if no user can be linked
 */
export async function findOrLinkUser(
  tables: Tables,
  visitor: Omit<Actor, 'kind' | 'id' | 'name'>,
  { name, new_users = {} }: ProviderSettings,
  claims: ProviderClaims,
): Promise<AuthenticatedUser> {
  const existingUser = await linkedUser(tables, claims);
  if (existingUser !== undefined) return assertEnabled(existingUser);
  if (claims.isReadOnly) {
    throw new TranslatedError(later('readOnly', { provider: name }));
  }
  const email = claims.isVerified ? parseEmail(claims.email ?? '') : undefined;
  if (email === undefined) {
    throw new TranslatedError(later('unverified', { provider: name }));
  }
  const actor: Actor = { ...visitor, kind: 'user', id: null, name: email };
  const user = await userOf(tables, actor, email, name);
  if (user !== undefined) assertEnabled(user);
  else await create(tables, actor, email, new_users);
  const [userToLink] = await findUsers(tables, email);
  if (userToLink === undefined) throw new Error('the user was deleted during the login');
  if (!(await linkIdentity(tables, userToLink.id, claims))) {
    throw new TranslatedError(later('alreadyLinked', { provider: name }));
  }
  const organizations = [...(await findMemberships(tables, userToLink.id)).values()];
  await recordEverywhere(
    tables,
    { ...actor, id: userToLink.id },
    organizations.map(({ organization }) => organization),
    'link provider',
    null,
  );
  return userToLink;
}

/** Checks that a user is not disabled, and returns the user. @throws UserError if the user is disabled */
function assertEnabled(user: User): User {
  if (user.disabled) throw new TranslatedError(later('disabled'));
  return user;
}

/**
 * Returns the user with an email address verified by the provider, or undefined. An unverified user becomes verified.
 * @throws UserError if several unverified users have the email address
 */
async function userOf(
  tables: Tables,
  actor: Actor,
  email: string,
  provider: string,
): Promise<User | undefined> {
  const [first, ...others] = await findUsers(tables, email);
  if (first === undefined || first.verified || first.disabled) return first;
  if (others.length > 0) {
    throw new TranslatedError(later('severalUsers', { email, provider }));
  }
  // The user may have been created by another person, who would know the password.
  await changePassword(tables, first, generatePassword());
  await markEmailProven(tables, first.id);
  const organizations = first.organization === null ? [] : [first.organization];
  await endAllSessions(tables, { ...actor, id: first.id }, first.id, organizations);
  return first;
}

/**
 * Creates a user with a verified email address.
 * @throws UserError unless an invitation or the address's domain allows it
 */
async function create(
  tables: Tables,
  actor: Actor,
  email: string,
  { invited = false, domains = {} }: NonNullable<ProviderSettings['new_users']>,
): Promise<void> {
  if (invited && (await acceptInviteTo(tables, actor, email))) return;
  const domain = email.slice(email.lastIndexOf('@') + 1);
  const membership = Object.hasOwn(domains, domain) ? domains[domain] : undefined;
  const message = later('notRegistered', { email });
  if (membership === undefined) throw new TranslatedError(message);
  const organization = await organizationId(tables, membership.organization).catch(throwMessage(message));
  const profile = await profileId(tables, organization, membership.profile).catch(throwMessage(message));
  await createUser(tables, actor, {
    email,
    organization,
    profile,
    password: generatePassword,
    verified: true,
  });
}

/** Returns a function that throws a message for the user. The error's cause is kept for the log. */
const throwMessage = (message: TextIn) => (cause: unknown) => {
  throw cause instanceof UserError ? new TranslatedError(message, { cause }) : cause;
};
