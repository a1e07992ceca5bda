// Last used: when things were last used: collected, and stored now and then.
// May import nothing of ours.

export { lastUsed } from './last-used.ts';
