// API keys: creation, rotation, revocation and authentication.
// May import engine, last-used, identity, profiles, admin-ui/shell, tenants/quotas.

export { type KeyConfig, keyVariables } from './authentication.ts';
export { createKey, revokeAllKeys } from './keys.ts';
export { apiKeysModule } from './module.ts';
