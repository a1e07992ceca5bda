// Organizations: creates, renames, exports and deletes organizations. May import engine, identity, admin-ui/shell,
// profiles.

export { organizationsModule } from './module.ts';
export {
  type ConfiguredSlugs,
  createOrganization,
  type NewOrganizations,
  renameOrganization,
} from './organizations.ts';
export { deleteOrganization } from './remove.ts';
