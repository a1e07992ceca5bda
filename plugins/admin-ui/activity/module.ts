import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { activityPage } from './page.ts';

/** Shows an organization's change log as a page. */
export const activityModule: Module<{ readonly config: AuditConfig; readonly database: Database }> = {
  name: 'activity',
  pages: activityPage,
};
