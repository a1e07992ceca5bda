// Profiles: named sets of grants.
// May import engine, admin-ui/shell.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { profilePages } from './page.ts';
import { profilesTables } from './tables.ts';

export {
  builtInProfiles,
  chosenProfile,
  createProfile,
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
export const profilesModule: Module<Services, Services> = {
  name: 'profiles',
  tables: profilesTables,
  pages: profilePages,
  commands: async (line) => (await import('./commands.ts')).profileCommands(line),
};
