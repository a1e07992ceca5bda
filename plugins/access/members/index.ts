// Members: an organization's members and invitations.
// May import engine, secrets, identity, profiles, api-keys, admin-ui/shell, operations/mail.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import type { Mailer } from '../../operations/mail/index.ts';
import { memberRoutes, membersFragment } from './api.ts';
import { memberPages } from './page.ts';
import { membersTables } from './tables.ts';

export { acceptInvite, acceptInviteTo, cancelAllInvites, type OpenInvite, openInvite } from './invites.ts';
export { memberRows } from './members.ts';

/** An organization's members and invitations. */
export const membersModule: Module<{
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly mailer: Mailer;
}> = {
  name: 'members',
  tables: membersTables,
  openApi: membersFragment,
  register: (app, services) => memberRoutes(app, services),
  pages: memberPages,
};
