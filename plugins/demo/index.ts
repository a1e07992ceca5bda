// Demo: the demo organization of an empty database.
// May import engine, identity, profiles, organizations, api-keys.

export { createDemo, type Demo } from './demo.ts';
