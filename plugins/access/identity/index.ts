// Identity: users, passwords, sessions and tokens, and request authentication.
// May import engine, last-used, secrets.

import type { Module } from '../../../engine/modules/index.ts';
import { type IdentityServices, sessionAuthentication, sessionVariables } from './authentication.ts';
import { identityTables } from './tables.ts';

export {
  bearerOf,
  cookieName,
  type IdentityServices,
  type Person,
  type Site,
  sessionVariables,
} from './authentication.ts';
export { linkedUser, linkIdentity } from './identities.ts';
export { IdentityError } from './identity-error.ts';
export {
  disableUser,
  enableUser,
  findUserBy,
  listUsers,
  markEmailProven,
  renameUser,
  resetPassword,
  resetSecondFactor,
  type UserInfo,
  unlinkUser,
  verifyEmail,
} from './operator-users.ts';
export { generatePassword, minPasswordLength } from './passwords.ts';
export {
  findMember,
  findPeople,
  listMembers,
  type NamedPerson,
  personDetail,
  personLabel,
  personLine,
  personLines,
  type VisiblePerson,
  withoutEmail,
} from './people.ts';
export { profileGrants } from './profile-grants.ts';
export {
  adminLinkHours,
  createMailedResets,
  createMemberReset,
  redeemReset,
} from './resets.ts';
export { hasSecondFactor, type SecondFactorPolicy, secondFactorsOf } from './second-factors.ts';
export {
  changeSecondFactors,
  endAllSessions,
  endReplacedSession,
  endSession,
  endSessionsOfAllUsers,
  findMemberships,
  type Membership,
  type MembershipRow,
  memberPrincipal,
  membershipBySlug,
  membershipRows,
  type Proof,
  recordEverywhere,
  type Session,
  type SessionInfo,
  sessionRows,
  startSession,
  userPrincipal,
} from './sessions.ts';
export { clockTolerance, tokens } from './tokens.ts';
export {
  type AuthenticatedUser,
  addExistingUser,
  addMembership,
  changeLanguage,
  changeName,
  changePassword,
  createUser,
  enabledUsers,
  findUsers,
  maxPersonName,
  normalEmail,
  parseEmail,
  personName,
  type User,
  userFor,
  usersWithPassword,
} from './users.ts';

/** Users, their sessions, and request authentication. */
export const identityModule: Module<IdentityServices> = {
  name: 'identity',
  tables: identityTables,
  variables: sessionVariables,
  register: async (app, services) => {
    await app.register(sessionAuthentication, services);
  },
};
