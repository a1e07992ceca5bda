// api-keys:
// May import

export { type KeyConfig, keyVariables } from './authentication.ts';
export { createKey } from './keys.ts';
export { apiKeysModule } from './module.ts';
