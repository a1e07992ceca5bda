// Users: the operator's commands for users in all organizations.
// May import engine, identity, profiles.

import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';

/** The operator's commands for managing users. */
export const usersModule: Module<unknown, { readonly config: AuditConfig; readonly database: Database }> = {
  name: 'users',
  commands: async (line) => (await import('./commands.ts')).userCommands(line),
};
