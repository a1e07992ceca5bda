import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  type Form,
  field,
  idField,
  linkWithParameters,
  listing,
  parametersOf,
  type SecretNotice,
  section,
} from '../../admin-ui/shell/index.ts';
import { type Mailer, mailTemplate } from '../../operations/mail/index.ts';
import { createMemberReset } from '../identity/index.ts';
import { chosenProfile, listProfiles, profileChoice } from '../profiles/index.ts';
import { cancelInvite, type Invite, invite, listInvites, replaceUnmailedCode } from './invites.ts';
import { changeMember, listMembers, type MemberInfo, removeMember } from './members.ts';

/** View data: `organization` (name), `link` and `code`. */
const inviteMail = mailTemplate(join(import.meta.dirname, 'invite-mail.hbs'));

/** Registers the pages for members and invitations. */
export function memberPages(
  app: FastifyInstance,
  { database, mailer }: { readonly database: Database; readonly mailer: Mailer },
): void {
  const memberOf = async (organization: string, form: Form): Promise<MemberInfo> => {
    const id = idField(form, 'id');
    const member = (await listMembers(tablesOf(database), organization)).find((row) => row.id === id);
    if (member === undefined) throw new UserError('this member does not exist');
    return member;
  };
  const inviteOf = async (organization: string, form: Form): Promise<Invite> => {
    const id = idField(form, 'id');
    const invitation = (await listInvites(tablesOf(database), organization)).find((row) => row.id === id);
    if (invitation === undefined) throw new UserError('this invitation is no longer open');
    return invitation;
  };
  /** Returns a notice that contains a link and its code, which the administrator passes on. */
  const linkAndCode = (
    title: string,
    text: string,
    ids: readonly [string, string],
    [link, code]: readonly [string, string],
  ): SecretNotice => ({
    title,
    text,
    values: [
      { id: ids[0], label: 'Link', value: link, copy: 'Copy link' },
      { id: ids[1], label: 'Code', value: code, copy: 'Copy code' },
    ],
  });

  section(app, database, {
    name: 'members',
    title: 'Members',
    done: {
      'member-changed': 'Profile changed for {}.',
      'member-removed': '{} removed.',
      'invite-cancelled': 'Invitation for {} canceled.',
      'invite-mailed': 'Invitation sent to {}.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const tables = tablesOf(database);
      const path = `/setup/o/${slug}/members`;
      const pageUrl = (page: string) => `${path}/${page}`;
      const primary = { label: 'Invite member', href: pageUrl('invite') };
      const [members, invites] = await Promise.all([
        listMembers(tables, organization),
        listInvites(tables, organization),
      ]);
      const isInvites = parametersOf(request).show === 'invitations';
      const chips = [
        {
          label: `Members (${members.length})`,
          href: path,
          current: !isInvites,
        },
        {
          label: `Open invitations (${invites.length})`,
          href: linkWithParameters(path, {}, { show: 'invitations' }),
          current: isInvites,
        },
      ];
      if (isInvites) {
        const page = listing(request, invites, {
          searchLabel: 'Search invitations',
          text: ({ email, profile }) => `${email} ${profile}`,
          columns: [
            { title: 'For', cell: ({ email }) => ({ text: email }), by: ({ email }) => email },
            { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: ({ profile }) => profile },
            {
              title: 'Until',
              cell: ({ expires_at }) => ({ time: expires_at }),
              by: ({ expires_at }) => Number(expires_at),
            },
          ],
          row: ({ id, email }) => ({
            id,
            links: [
              {
                label: 'Cancel invitation',
                name: `Cancel the invitation for ${email}`,
                href: `${pageUrl('cancel')}?id=${id}`,
              },
            ],
          }),
          empty: { text: 'No open invitations.', link: primary },
        });
        return { primary, ...page, chips };
      }
      const page = listing(request, members, {
        searchLabel: 'Search members',
        text: ({ email, profile }) => `${email} ${profile}`,
        columns: [
          { title: 'Email address', cell: ({ email }) => ({ text: email }), by: ({ email }) => email },
          { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: ({ profile }) => profile },
          { title: 'Since', cell: ({ since }) => ({ time: since }), by: ({ since }) => Number(since) },
        ],
        row: ({ id, email }) => ({
          id,
          links: [
            {
              label: 'Change profile',
              name: `Change profile for ${email}`,
              href: `${pageUrl('change')}?id=${id}`,
            },
            ...(mailer.sendsLinks()
              ? []
              : [
                  {
                    label: 'Reset password',
                    name: `Reset password for ${email}`,
                    href: `${pageUrl('reset')}?id=${id}`,
                  },
                ]),
            { label: 'Remove', name: `Remove ${email}`, href: `${pageUrl('remove')}?id=${id}` },
          ],
        }),
        empty: { text: 'Members log in and work with records, as their profile permits.', link: primary },
      });
      return { primary, ...page, chips };
    },
    pages: {
      invite: async ({ membership: { organization, slug } }, { form, back }) => ({
        kind: 'form',
        title: 'Invite a member',
        action: `/setup/o/${slug}/members/invite`,
        inputs: [
          {
            kind: 'email',
            name: 'email',
            label: 'Email address',
            required: true,
            value: field(form, 'email').slice(0, 254),
            focus: true,
          },
          profileChoice(
            await listProfiles(tablesOf(database), organization),
            field(form, 'profile'),
            'What the person is allowed to do.',
          ),
        ],
        submit: 'Invite member',
        cancel: back,
      }),
      change: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, email, profile_id } = await memberOf(organization, form);
        const profiles = await listProfiles(tablesOf(database), organization);
        return {
          kind: 'form',
          title: `Change profile for ${email}`,
          action: `/setup/o/${slug}/members/change`,
          hidden: [{ name: 'id', value: id }],
          inputs: [
            profileChoice(
              profiles,
              field(form, 'profile') || profile_id,
              'What the person is allowed to do.',
            ),
          ],
          submit: 'Change profile',
          cancel: back,
          danger: { label: 'Remove member', href: `/setup/o/${slug}/members/remove?id=${id}` },
        };
      },
      reset: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, email } = await memberOf(organization, form);
        return {
          kind: 'confirm',
          title: `Create a reset link for ${email}?`,
          consequence:
            'Anyone with the link and its code can choose a new password for this member. Give both only to this member.',
          action: `/setup/o/${slug}/members/reset`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Create reset link',
          cancel: back,
          isSafe: true,
        };
      },
      remove: async ({ membership: { organization, slug, name } }, { form, back }) => {
        const { id, email } = await memberOf(organization, form);
        return {
          kind: 'confirm',
          title: `Remove ${email}?`,
          consequence: `This member immediately loses access to ${name}. Their past changes remain under their name.`,
          action: `/setup/o/${slug}/members/remove`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Remove member',
          cancel: back,
        };
      },
      cancel: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, email } = await inviteOf(organization, form);
        return {
          kind: 'confirm',
          title: `Cancel the invitation for ${email}?`,
          consequence: 'Its link and code stop working immediately.',
          action: `/setup/o/${slug}/members/cancel`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Withdraw invitation',
          cancel: back,
        };
      },
    },
    once: ['invite', 'reset'],
    actions: {
      invite: async ({ membership: { organization, name }, actor, transact }, form, request) => {
        const mailed = mailer.sendsLinks();
        const { id, email, ...invitation } = await transact(async (tables) =>
          invite(tables, actor, {
            organization,
            email: field(form, 'email'),
            profile: await chosenProfile(tables, organization, form),
            mailed,
          }),
        );
        const link = `${app.site.origin(request)}/setup/invite/${invitation.publicId}`;
        if (mailed) {
          const mail = inviteMail(email, { organization: name, link, code: invitation.code });
          if (await mailer.send(mail)) return { done: 'invite-mailed', name: email };
        }
        // An email may have arrived even though it was reported as failed, so its code is replaced.
        const code = mailed
          ? await transaction(database, (tables) => replaceUnmailedCode(tables, organization, id))
          : invitation.code;
        return {
          view: {
            ...(mailed && {
              problem: 'The email could not be sent. Pass on the link and the code yourself.',
            }),
            made: linkAndCode(
              `Invitation for ${email}`,
              'Send both. The code is shown only once. The invitation can be used once, within 7 days.',
              ['link', 'invitation-code'],
              [link, code],
            ),
          },
        };
      },
      reset: async ({ membership: { organization }, actor, transact }, form, request) => {
        const id = idField(form, 'id');
        const { publicId, email, code } = await transact((tables) =>
          createMemberReset(tables, actor, organization, id),
        );
        const link = `${app.site.origin(request)}/setup/reset/${publicId}`;
        return {
          view: {
            made: linkAndCode(
              `Reset link for ${email}`,
              'Send both. The code is shown only once. The link can be used once, within 24 hours.',
              ['reset-link', 'reset-code'],
              [link, code],
            ),
          },
        };
      },
      cancel: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const { email } = await inviteOf(organization, form);
        await transact((tables) => cancelInvite(tables, actor, organization, id));
        return { done: 'invite-cancelled', name: email };
      },
      change: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact(async (tables) => {
          const profile = await chosenProfile(tables, organization, form);
          await changeMember(tables, actor, organization, id, profile);
        });
        return { done: 'member-changed', name: (await memberOf(organization, form)).email, id };
      },
      remove: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const { email } = await memberOf(organization, form);
        await transact((tables) => removeMember(tables, actor, organization, id));
        return { done: 'member-removed', name: email };
      },
    },
  });
}
