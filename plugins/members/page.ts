import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type Tables, tablesOf, transaction } from '../../engine/tables/index.ts';
import { memberReset } from '../identity/index.ts';
import { type Mailer, mailTemplate } from '../mail/index.ts';
import { listProfiles } from '../profiles/index.ts';
import { type Form, field, idField, section, viewsIn } from '../screens/index.ts';
import { cancelInvite, invite, listInvites, unmailInvite } from './invites.ts';
import { changeMember, listMembers, removeMember } from './members.ts';

/** Data: `organization` (name), `link`, `code`. */
const inviteMail = mailTemplate(join(import.meta.dirname, 'invite-mail.hbs'));

/** Members and invitations. */
export function memberPages(
  app: FastifyInstance,
  { database, mailer }: { readonly database: Database; readonly mailer: Mailer },
): void {
  const profileOf = async (tables: Tables, organization: string, form: Form): Promise<string> => {
    const id = idField(form, 'profile');
    const known = await listProfiles(tables, organization);
    if (!known.some((each) => each.id === id)) throw new UserError('there is no such profile');
    return id;
  };

  section(app, database, {
    name: 'members',
    title: 'Members',
    view: viewsIn(import.meta.dirname)('members'),
    done: {
      'member-changed': 'The member has another profile.',
      'member-removed': 'The member is removed.',
      'invite-cancelled': 'The invitation is taken back.',
    },
    load: async ({ membership: { organization } }) => {
      const tables = tablesOf(database);
      const [members, invites, profiles] = await Promise.all([
        listMembers(tables, organization),
        listInvites(tables, organization),
        listProfiles(tables, organization),
      ]);
      return { members, invites, profiles, offersResetLinks: !mailer.isOn() };
    },
    once: ['invite', 'reset'],
    actions: {
      invite: async ({ membership: { organization, name }, actor, transact }, form, request) => {
        const mailed = mailer.isOn();
        const { id, email, ...made } = await transact(async (tables) =>
          invite(tables, actor, {
            organization,
            email: field(form, 'email'),
            profile: await profileOf(tables, organization, form),
            mailed,
          }),
        );
        const link = `${app.site.origin(request)}/setup/invite/${made.publicId}`;
        if (mailed) {
          const mail = inviteMail(email, { organization: name, link, code: made.code });
          if (await mailer.send(mail)) return { shown: { notice: `The invitation is mailed to ${email}.` } };
        }
        // A mail that failed may have arrived nevertheless, so its code is replaced.
        const code = mailed
          ? await transaction(database, (tables) => unmailInvite(tables, organization, id))
          : made.code;
        const problem = mailed ? 'The mail could not be sent. Pass link and code on yourself.' : undefined;
        return { shown: { problem, invitation: { link, code, email } } };
      },
      reset: async ({ membership: { organization }, actor, transact }, form, request) => {
        const id = idField(form, 'id');
        const { publicId, ...made } = await transact((tables) =>
          memberReset(tables, actor, organization, id),
        );
        const link = `${app.site.origin(request)}/setup/reset/${publicId}`;
        return { shown: { reset: { link, ...made } } };
      },
      cancel: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => cancelInvite(tables, actor, organization, id));
        return { done: 'invite-cancelled' };
      },
      change: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact(async (tables) => {
          const profile = await profileOf(tables, organization, form);
          await changeMember(tables, actor, organization, id, profile);
        });
        return { done: 'member-changed' };
      },
      remove: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => removeMember(tables, actor, organization, id));
        return { done: 'member-removed' };
      },
    },
  });
}
