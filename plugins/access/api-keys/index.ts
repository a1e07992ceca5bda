// Api keys: API keys: made, rotated, revoked, and what programs authenticate with.
// May import engine, last-used, identity, screens, profiles.

export { type KeyConfig, keyVariables } from './authentication.ts';
export { createKey, revokeAllKeys } from './keys.ts';
export { apiKeysModule } from './module.ts';
