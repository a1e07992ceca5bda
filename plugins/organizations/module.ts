import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import type { Module } from '../../engine/modules/index.ts';
import { organizations } from '../../engine/tables/index.ts';
import { organizationCommands } from './commands.ts';
import { organizationPages } from './page.ts';

/** Organizations: the tenants. */
export const organizationsModule: Module<
  unknown,
  { readonly config: AuditConfig; readonly database: Database }
> = {
  name: 'organizations',
  tables: [organizations],
  pages: organizationPages,
  commands: organizationCommands,
};
