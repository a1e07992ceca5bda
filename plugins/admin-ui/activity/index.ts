// Activity: shows an organization's change log as a page. May import engine, identity, admin-ui/shell, admin-ui/records.

import type { Module } from '../../../engine/modules/index.ts';
import { type ActivityServices, activityPage } from './page.ts';

/** Shows an organization's change log as a page. */
export const activityModule: Module<ActivityServices> = {
  name: 'activity',
  pages: activityPage,
};
