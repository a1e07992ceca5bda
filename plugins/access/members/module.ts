import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import type { Mailer } from '../../operations/mail/index.ts';
import { memberPages } from './page.ts';
import { membersTables } from './tables.ts';

/** Members of organizations, and invitations. */
export const membersModule: Module<{ readonly database: Database; readonly mailer: Mailer }> = {
  name: 'members',
  tables: membersTables,
  pages: memberPages,
};
