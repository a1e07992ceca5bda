// Organizations: creates, renames, exports and deletes organizations. May import engine, identity, admin-ui/shell,
// profiles.

import type { Module } from '../../../engine/modules/index.ts';
import { formerSlugs, organizations } from '../../../engine/tables/index.ts';
import type { OrganizationInstance } from './commands.ts';
import { type OrganizationServices, organizationPages } from './page.ts';

export {
  type ConfiguredSlugs,
  createOrganization,
  type NewOrganizations,
  renameOrganization,
} from './organizations.ts';
export { deleteOrganization } from './remove.ts';

/** Organizations: an instance's tenants. */
export const organizationsModule: Module<OrganizationServices, OrganizationInstance> = {
  name: 'organizations',
  tables: [organizations, formerSlugs],
  pages: organizationPages,
  commands: async (line) => (await import('./commands.ts')).organizationCommands(line),
};
