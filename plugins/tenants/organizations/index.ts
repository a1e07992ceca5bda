// Organizations: creating, renaming, exporting and deleting them.
// May import engine, identity, screens, profiles.

export { exportOrganization } from './export.ts';
export { organizationsModule } from './module.ts';
export {
  type ConfiguredSlugs,
  createOrganization,
  type NewOrganizations,
  renameOrganization,
} from './organizations.ts';
export { deleteOrganization } from './remove.ts';
