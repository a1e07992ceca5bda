import type { Module } from '../../../engine/modules/index.ts';
import { adminUi, type ScreenServices } from './admin-ui.ts';
import { adminUiTables } from './tables.ts';

/** The shell of the admin UI, to which other modules add their pages. */
export const adminUiModule: Module<ScreenServices> = {
  name: 'shell',
  tables: adminUiTables,
  register: adminUi,
};
