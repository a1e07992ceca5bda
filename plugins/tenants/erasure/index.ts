// Erasure: deletes a person's data from an organization's records, change log and partner data.
// May import engine, secrets, admin-ui/shell.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { type ErasurePageServices, erasurePages } from './page.ts';
import { erasureTables } from './tables.ts';

interface Instance {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** Their records are erased, too. */
  readonly retiredResources?: readonly Resource[];
}

/** Erases a person's data from an organization. */
export const erasureModule: Module<ErasurePageServices, Instance> = {
  name: 'erasure',
  tables: erasureTables,
  pages: erasurePages,
  commands: async (line) => (await import('./commands.ts')).erasureCommands(line),
};
