import type { Module } from '../../../engine/modules/index.ts';
import { type AdminUiServices, adminUi } from './admin-ui.ts';
import { adminUiTables } from './tables.ts';

/** The shell of the admin UI, to which other modules add their pages. */
export const adminUiModule: Module<AdminUiServices> = {
  name: 'shell',
  tables: adminUiTables,
  register: adminUi,
};
