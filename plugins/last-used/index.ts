// last-used:
// May import

export { lastUsed } from './last-used.ts';
