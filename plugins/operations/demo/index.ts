// Demo: the demo organization of an empty database.
// May import engine, identity, profiles, api-keys, tenants/organizations.

export { createDemo, type Demo, firstSamples } from './demo.ts';
export { demoModule } from './module.ts';
