// Platform: organizations, users, memberships, profiles and keys; what the command line and the screens do with them.
// May import errors, config, compile, database, request.
export { createDemo, type Demo } from './demo.ts';
export { type Platform, platform, transaction } from './handle.ts';
export { matches, publicIdOf } from './key-format.ts';
export {
  createKey,
  findKey,
  type KeyInfo,
  listKeys,
  noteKeysUsed,
  revokeKey,
  type StoredKey,
} from './keys.ts';
export { createOrganization, organizationId } from './organizations.ts';
export { createProfile, type Grant, parseGrant, profileId } from './profiles.ts';
export { platformEntities } from './tables.ts';
export { createUser, makePassword } from './users.ts';
