// Saved views: the filters, search, order and columns of lists, private or shared. May import engine, admin-ui/shell.

import type { Module } from '../../../engine/modules/index.ts';
import { savedViewTables } from './tables.ts';

export {
  changeView,
  createView,
  deleteView,
  findView,
  listViews,
  type MemberList,
  type SavedView,
  setDefaultView,
} from './saved-views.ts';

/** The stored views of lists. Their pages belong to the pages of records. */
export const savedViewsModule: Module = { name: 'saved-views', tables: savedViewTables };
