import type { FastifyInstance } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import {
  cancelInvite,
  changeMember,
  invite,
  listInvites,
  listMembers,
  listProfiles,
  memberReset,
  type Platform,
  platform,
  removeMember,
  transaction,
  unmailInvite,
} from '../../engine/platform/index.ts';
import type { Setup } from './index.ts';
import { inviteMail } from './mails.ts';
import { type Form, field, idField, section } from './page.ts';

/** Members and invitations. */
export function memberPages(app: FastifyInstance, { database, mailer }: Setup): void {
  const profileOf = async (tables: Platform, organization: string, form: Form): Promise<string> => {
    const id = idField(form, 'profile');
    const known = await listProfiles(tables, organization);
    if (!known.some((each) => each.id === id)) throw new UserError('there is no such profile');
    return id;
  };

  section(app, database, {
    name: 'members',
    title: 'Members',
    load: async ({ membership: { organization } }) => {
      const tables = platform(database);
      const [members, invites, profiles] = await Promise.all([
        listMembers(tables, organization),
        listInvites(tables, organization),
        listProfiles(tables, organization),
      ]);
      return { members, invites, profiles, offersResetLinks: !mailer.isOn() };
    },
    once: ['invite', 'reset'],
    actions: {
      invite: async ({ membership: { organization, name }, by, transact }, form, request) => {
        const mailed = mailer.isOn();
        const { id, email, ...made } = await transact(async (tables) =>
          invite(tables, by, {
            organization,
            email: field(form, 'email'),
            profile: await profileOf(tables, organization, form),
            mailed,
          }),
        );
        const link = `${app.site.origin(request)}/setup/invite/${made.publicId}`;
        if (mailed) {
          const mail = inviteMail(email, { organization: name, link, code: made.code });
          if (await mailer.send(mail)) return { shown: { note: `The invitation is mailed to ${email}.` } };
        }
        // What could not be mailed may have arrived nevertheless: its code proves nothing any more.
        const code = mailed
          ? await transaction(database, (tables) => unmailInvite(tables, organization, id))
          : made.code;
        const problem = mailed ? 'The mail could not be sent. Pass link and code on yourself.' : undefined;
        return { shown: { problem, invitation: { link, code, email } } };
      },
      reset: async ({ membership: { organization }, by, transact }, form, request) => {
        const id = idField(form, 'id');
        const { publicId, ...made } = await transact((tables) => memberReset(tables, by, organization, id));
        const link = `${app.site.origin(request)}/setup/reset/${publicId}`;
        return { shown: { reset: { link, ...made } } };
      },
      cancel: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => cancelInvite(tables, by, organization, id));
        return { done: 'invite-cancelled' };
      },
      change: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        await transact(async (tables) => {
          const profile = await profileOf(tables, organization, form);
          await changeMember(tables, by, organization, id, profile);
        });
        return { done: 'member-changed' };
      },
      remove: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => removeMember(tables, by, organization, id));
        return { done: 'member-removed' };
      },
    },
  });
}
