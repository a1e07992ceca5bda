// Last used: collects the times at which keys and sessions were last used, and stores them periodically.
// Must not import other modules of this project.

export { lastUsed } from './last-used.ts';
