// Identity: users, passwords, sessions and tokens; who sent a request.
// May import engine, last-used, secrets.

export {
  bearerOf,
  cookieName,
  type IdentityServices,
  type Person,
  sessionVariables,
} from './authentication.ts';
export { normalEmail, parseEmail } from './emails.ts';
export { linkedUser, linkIdentity } from './identities.ts';
export { identityModule } from './module.ts';
export {
  disableUser,
  enableUser,
  findUserBy,
  listUsers,
  markEmailProven,
  resetPassword,
  resetSecondFactor,
  type UserInfo,
  unlinkUser,
  verifyAddress,
} from './operator-users.ts';
export type { Site } from './origin.ts';
export { generatePassword } from './passwords.ts';
export { mailedResets, memberReset, useReset } from './resets.ts';
export {
  hasSecondFactor,
  removeSecondFactors,
  type SecondFactorPolicy,
  type SecondFactors,
  secondFactorsOf,
} from './second-factors.ts';
export {
  changeSecondFactors,
  endAllSessions,
  endReplacedSession,
  endSession,
  endSessionsOfAll,
  findMemberships,
  listSessions,
  type Membership,
  membershipNamed,
  type Proof,
  recordEverywhere,
  type Session,
  startSession,
} from './sessions.ts';
export { tokens } from './tokens.ts';
export {
  addExisting,
  addMembership,
  changePassword,
  createUser,
  enabledUsers,
  findUsers,
  type KnownUser,
  type User,
  userFor,
  usersWithPassword,
} from './users.ts';
