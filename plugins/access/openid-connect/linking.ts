import type { Actor } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { organizationId, type Tables } from '../../../engine/tables/index.ts';
import {
  changePassword,
  createUser,
  endAllSessions,
  findMemberships,
  findUsers,
  generatePassword,
  type KnownUser,
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

/** Whom a provider says somebody to be. */
export interface ProviderClaims {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | undefined;
  /** Whether the provider has verified the address. */
  readonly isVerified: boolean;
  /** Whether nothing may be changed at the moment: who is linked already can log in all the same. */
  readonly isReadOnly: boolean;
}

/**
 * Finds the user for a login at a provider, in a transaction: the linked one, otherwise the one with the verified email
 * address, otherwise a new one if the settings allow it.
 * @throws UserError with a message for the user if no user can be linked
 */
export async function findOrLinkUser(
  tables: Tables,
  visitor: Omit<Actor, 'kind' | 'id' | 'name'>,
  { name, new_users = {} }: ProviderSettings,
  claimed: ProviderClaims,
): Promise<KnownUser> {
  const linked = await linkedUser(tables, claimed);
  if (linked !== undefined) return enabled(linked);
  if (claimed.isReadOnly) {
    throw new UserError(`This instance is read-only, so ${name} cannot be linked now. Try again later.`);
  }
  const email = claimed.isVerified ? parseEmail(claimed.email ?? '') : undefined;
  if (email === undefined) {
    throw new UserError(
      `${name} has not verified your email address, so it cannot be linked to a user here.`,
    );
  }
  const actor: Actor = { ...visitor, kind: 'user', id: null, name: email };
  const user = await userOf(tables, actor, email, name);
  if (user !== undefined) enabled(user);
  else await create(tables, actor, email, new_users);
  const [found] = await findUsers(tables, email);
  if (found === undefined) throw new Error('a user that was just there is gone');
  if (!(await linkIdentity(tables, found.id, claimed))) {
    throw new UserError(
      `Your user is linked to another login at ${name}. The operator of this instance can unlink it.`,
    );
  }
  const organizations = [...(await findMemberships(tables, found.id)).values()];
  await recordEverywhere(
    tables,
    { ...actor, id: found.id },
    organizations.map(({ organization }) => organization),
    'link provider',
    null,
  );
  return found;
}

/** @throws UserError if a user is disabled */
function enabled(user: User): User {
  if (user.disabled) throw new UserError('Your user is disabled. Ask the operator of this instance.');
  return user;
}

/** Returns the user with a newly verified email address, or undefined. */
async function userOf(
  tables: Tables,
  actor: Actor,
  email: string,
  provider: string,
): Promise<User | undefined> {
  const [first, ...more] = await findUsers(tables, email);
  if (first === undefined || first.verified || first.disabled) return first;
  if (more.length > 0) {
    throw new UserError(
      `Several users have the email address ${email}, and ${provider} does not tell which one is yours. Reset the password of one to verify it, or ask the operator of this instance.`,
    );
  }
  // Somebody else may have made it with this address, and knows its password.
  await changePassword(tables, first, generatePassword());
  await markEmailProven(tables, first.id);
  const organizations = first.organization === null ? [] : [first.organization];
  await endAllSessions(tables, { ...actor, id: first.id }, first.id, organizations);
  return first;
}

/** Creates the user of an address that is proven. @throws UserError unless an invitation or its domain allows that */
async function create(
  tables: Tables,
  actor: Actor,
  email: string,
  { invited = false, domains = {} }: NonNullable<ProviderSettings['new_users']>,
): Promise<void> {
  if (invited && (await acceptInviteTo(tables, actor, email))) return;
  const domain = email.slice(email.lastIndexOf('@') + 1);
  const place = Object.hasOwn(domains, domain) ? domains[domain] : undefined;
  const none = `${email} does not have a user here. Ask an administrator of your organization to invite you.`;
  if (place === undefined) throw new UserError(none);
  const organization = await organizationId(tables, place.organization).catch(because(none));
  const profile = await profileId(tables, organization, place.profile).catch(because(none));
  await createUser(tables, actor, {
    email,
    organization,
    profile,
    password: generatePassword,
    verified: true,
  });
}

/** Throws the message for the user; the configuration error is its cause, for the log. */
const because = (message: string) => (cause: unknown) => {
  throw cause instanceof UserError ? new UserError(message, { cause }) : cause;
};
