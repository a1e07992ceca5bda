// Platform: organizations, people, profiles, keys, sessions and activity; what the command line, logins and screens use.
// May import errors, config, compile, database, request.
export { type ActivityLine, type Actor, commandLine, listActivity, note } from './activity.ts';
export { createDemo, type Demo } from './demo.ts';
export { type Platform, plain, platform, runForId, transaction } from './handle.ts';
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
export {
  acceptInvite,
  cancelInvite,
  changeMember,
  type Invite,
  invite,
  listInvites,
  listMembers,
  type Member,
  removeMember,
} from './members.ts';
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
export { type Sealing, sealing } from './sealing.ts';
export { hashSecret, isSecret, makePublicId, makeSecret } from './secrets.ts';
export {
  beginSession,
  endAllSessions,
  endSession,
  findMemberships,
  findSession,
  listSessions,
  type Membership,
  noteEverywhere,
  noteSessionsUsed,
  type Session,
} from './sessions.ts';
export { platformEntities } from './tables.ts';
export { instanceSecret, type Tokens, tokens } from './tokens.ts';
export { changePassword, createUser, verifyUser } from './users.ts';
