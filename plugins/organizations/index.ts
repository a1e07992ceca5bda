// Organizations: how an organization is made.
// May import engine, screens, profiles.

export { organizationsModule } from './module.ts';
export { createOrganization } from './organizations.ts';
