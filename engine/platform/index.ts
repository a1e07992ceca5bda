// Platform: organizations, people, profiles, keys, sessions and activity; what the command line, logins and screens use.
// May import errors, config, compile, database, request.

export { type ActivityLine, type Actor, commandLine, listActivity, note } from './activity.ts';
export { createDemo, type Demo } from './demo.ts';
export { normalEmail, parseEmail } from './emails.ts';
export { type Platform, plain, platform, runForId, transaction } from './handle.ts';
export {
  acceptInvite,
  cancelInvite,
  type Invite,
  invite,
  listInvites,
  type OpenInvite,
  openInvite,
  unmailInvite,
} from './invites.ts';
export { matches, publicIdOf } from './key-format.ts';
export {
  createKey,
  findKey,
  type KeyInfo,
  listKeys,
  type NewApiKey,
  noteKeysUsed,
  revokeKey,
  rotateKey,
  type StoredKey,
} from './keys.ts';
export { changeMember, listMembers, type Member, removeMember } from './members.ts';
export {
  disableUser,
  enableUser,
  findUserBy,
  listUsers,
  markVerified,
  resetPassword,
  type UserInfo,
  verifyAddress,
} from './operator-users.ts';
export { createOrganization, organizationId } from './organizations.ts';
export { makePassword } from './passwords.ts';
export {
  administrator,
  changeProfile,
  createProfile,
  deleteProfile,
  type Grant,
  listProfiles,
  type Profile,
  parseGrant,
  profileId,
} from './profiles.ts';
export { type MailedReset, mailedResets, memberReset, type ResetLink, useReset } from './resets.ts';
export { openingOnce, type Sealing, sealing } from './sealing.ts';
export { hashSecret, isSecret, makePublicId, makeSecret } from './secrets.ts';
export { claimForm } from './sent-forms.ts';
export {
  beginSession,
  endAllSessions,
  endReplaced,
  endSession,
  findMemberships,
  findSession,
  listSessions,
  type Membership,
  noteEverywhere,
  noteSessionsUsed,
  type Session,
} from './sessions.ts';
export { derivedKeys, instanceSecret, type Tokens, tokens } from './tokens.ts';
export {
  addExisting,
  changePassword,
  createUser,
  enabledUsers,
  type KnownUser,
  type User,
  userFor,
  withPassword,
} from './users.ts';
