import type { FastifyInstance } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import {
  cancelInvite,
  changeMember,
  invite,
  listInvites,
  listMembers,
  listProfiles,
  type Platform,
  platform,
  removeMember,
  transaction,
} from '../../engine/platform/index.ts';
import type { Setup } from './index.ts';
import { type Form, field, idField, section } from './page.ts';

/** Members and invitations. */
export function memberPages(app: FastifyInstance, { database }: Setup): void {
  const profileOf = async (tables: Platform, organization: string, form: Form): Promise<string> => {
    const id = idField(form, 'profile');
    const known = await listProfiles(tables, organization);
    if (!known.some((each) => each.id === id)) throw new UserError('there is no such profile');
    return id;
  };

  section(app, {
    name: 'members',
    title: 'Members',
    load: async ({ membership: { organization } }) => {
      const tables = platform(database);
      const [members, invites, profiles] = await Promise.all([
        listMembers(tables, organization),
        listInvites(tables, organization),
        listProfiles(tables, organization),
      ]);
      return { members, invites, profiles };
    },
    once: ['invite'],
    actions: {
      invite: async ({ membership: { organization }, by }, form, request) => {
        const made = await transaction(database, async (tables) =>
          invite(tables, by, {
            organization,
            email: field(form, 'email'),
            profile: await profileOf(tables, organization, form),
          }),
        );
        const link = `${request.protocol}://${request.host}/setup/invite/${made.publicId}`;
        return { shown: { invitation: { link, code: made.code, email: field(form, 'email').trim() } } };
      },
      cancel: async ({ membership: { organization }, by }, form) => {
        const id = idField(form, 'id');
        await transaction(database, (tables) => cancelInvite(tables, by, organization, id));
        return { done: 'invite-cancelled' };
      },
      change: async ({ membership: { organization }, by }, form) => {
        const id = idField(form, 'id');
        await transaction(database, async (tables) => {
          const profile = await profileOf(tables, organization, form);
          await changeMember(tables, by, organization, id, profile);
        });
        return { done: 'member-changed' };
      },
      remove: async ({ membership: { organization }, by }, form) => {
        const id = idField(form, 'id');
        await transaction(database, (tables) => removeMember(tables, by, organization, id));
        return { done: 'member-removed' };
      },
    },
  });
}
