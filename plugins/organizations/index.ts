// organizations:
// May import

export { organizationsModule } from './module.ts';
export { createOrganization } from './organizations.ts';
