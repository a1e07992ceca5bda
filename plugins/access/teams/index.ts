// Teams: groups of members who share records through scopes with my_team.
// May import engine, identity, admin-ui/shell.

import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { teamPages } from './page.ts';
import { teamTables } from './tables.ts';

export { teamRows } from './teams.ts';

/** Teams and their members. */
export const teamsModule: Module<
  { readonly database: Database },
  { readonly config: AuditConfig; readonly database: Database }
> = {
  name: 'teams',
  tables: teamTables,
  pages: teamPages,
  commands: async (line) => (await import('./commands.ts')).teamCommands(line),
};
