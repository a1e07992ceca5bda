// Profiles: named sets of grants.
// May import engine, identity, admin-ui/shell, admin-ui/records.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { permissionRoutes, permissionsFragment } from './api.ts';
import { lostGrants } from './lost-grants.ts';
import { profilePages } from './page.ts';
import { profilesTables } from './tables.ts';

export type { Grant } from './grants.ts';
export { describeLostGrant, findLostGrants, type LostGrant } from './lost-grants.ts';
export {
  assertProfileGrantable,
  builtInProfiles,
  chosenProfile,
  coveredProfiles,
  createProfile,
  type Grantor,
  profileChoice,
  profileId,
  profileRows,
} from './profiles.ts';

interface Services {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}

/** Profiles: named sets of grants. */
export const profilesModule: Module<Services, Services, Services> = {
  name: 'profiles',
  tables: profilesTables,
  openApi: permissionsFragment,
  register: permissionRoutes,
  pages: profilePages,
  checks: [lostGrants],
  commands: async (line) => (await import('./commands.ts')).profileCommands(line),
};
