import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { countRows, tablesOf, transaction } from '../../../engine/tables/index.ts';
import {
  addHomeStep,
  addObjects,
  defineObject,
  field,
  languageOf,
  languages,
  plainText,
  type SecretNotice,
} from '../../admin-ui/shell/index.ts';
import { linkWithCode, type Mailer, mailTemplate } from '../../operations/mail/index.ts';
import { createMemberReset, findUsers, maxPersonName, personLines } from '../identity/index.ts';
import { chosenProfile, profileChoice } from '../profiles/index.ts';
import {
  cancelInvite,
  closedInvite,
  type Invite,
  invite,
  inviteRows,
  replaceUnmailedCode,
} from './invites.ts';
import { changeMember, type MemberInfo, memberRows, missingMember, removeMember } from './members.ts';
import { membersTexts } from './texts/index.ts';

/** View data: `organization` (name), `link` and `code`. */
const inviteMail = mailTemplate(join(import.meta.dirname, 'invite-mail.hbs'), plainText);

interface MemberServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly mailer: Mailer;
}

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

const profileHelp = 'Determines what this person can do.';

/** Members, and the form for inviting them. */
const members = defineObject<MemberInfo, MemberServices>({
  name: 'members',
  title: membersTexts.later('members'),
  group: 'Access',
  icon: 'users',
  plural: 'members',
  source: memberRows,
  missing: () => missingMember,
  nameOf: ({ email }) => email,
  columns: [
    {
      title: 'Name',
      cell: personLines,
      by: 'lower(coalesce(u.name, u.email))',
    },
    { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
    { title: 'Since', cell: ({ since }) => ({ time: since }), by: 'm.created_at' },
  ],
  empty: 'Members can log in and work with the records that their profile permits.',
  actions: {
    invite: {
      label: 'Invite member',
      isOnce: true,
      page: async (context, form) => ({
        kind: 'form',
        title: 'Invite a member',
        inputs: [
          {
            kind: 'email',
            name: 'email',
            label: 'Email address',
            required: true,
            value: field(form, 'email').slice(0, 254),
            focus: true,
          },
          {
            kind: 'line',
            name: 'name',
            label: 'Name',
            maxLength: maxPersonName,
            value: field(form, 'name').slice(0, maxPersonName),
            help: 'Optional. The invited person can change it.',
          },
          await profileChoice(context, field(form, 'profile'), profileHelp),
        ],
        submit: 'Invite member',
      }),
      done: { 'invite-mailed': 'Invitation sent to {}.' },
      run: async (context, form) => {
        const { app, request, membership, actor, transact, services } = context;
        const { mailer, database } = services;
        const { organization, name } = membership;
        const mailed = mailer.sendsLinks();
        const { id, email, ...invitation } = await transact(async (tables) =>
          invite(tables, actor, {
            organization,
            email: field(form, 'email'),
            name: field(form, 'name').trim() === '' ? undefined : field(form, 'name'),
            profile: await chosenProfile(tables, context, form),
            mailed,
          }),
        );
        const link = `${app.site.origin(request)}/setup/invite/${invitation.publicId}`;
        if (mailed) {
          const { code } = invitation;
          // Without an account, the invited person probably has the same language as the inviter.
          const known = (await findUsers(tablesOf(database), email)).map(({ language }) => language);
          const language = languages.find((candidate) => known.includes(candidate)) ?? languageOf(request);
          const data = { organization: name, link: linkWithCode(link, code), code };
          const mail = inviteMail(email, language, data);
          if (await mailer.send(mail)) return { done: 'invite-mailed', name: email };
        }
        // An email may have arrived even though it was reported as failed, so its code is replaced.
        const code = mailed
          ? await transaction(database, (tables) => replaceUnmailedCode(tables, organization, id))
          : invitation.code;
        return {
          view: {
            ...(mailed && {
              problem: 'The email could not be sent. Send the link and the code yourself.',
            }),
            made: linkAndCode(
              `Invitation for ${email}`,
              'Send the link and the code. The code is shown only once. The invitation can be used once, within 7 days.',
              ['link', 'invitation-code'],
              [link, code],
            ),
          },
        };
      },
    },
  },
  rowActions: {
    change: {
      label: 'Change profile',
      phrase: 'Change profile for',
      page: async (context, form, { id, email, profile_id }) => ({
        kind: 'form',
        title: `Change profile for ${email}`,
        inputs: [await profileChoice(context, field(form, 'profile') || profile_id, profileHelp)],
        submit: 'Change profile',
        danger: { label: 'Remove member', href: `${context.urlOf('remove')}?id=${id}` },
      }),
      done: { 'member-changed': 'Profile changed for {}.' },
      run: (context, form, { id }) =>
        context.transact(async (tables) => {
          const profile = await chosenProfile(tables, context, form);
          await changeMember(tables, context.actor, context.organization, id, profile);
        }),
    },
    reset: {
      label: 'Reset password',
      phrase: 'Reset password for',
      isOffered: (_member, { services: { mailer } }) => !mailer.sendsLinks(),
      isOnce: true,
      page: (_context, _form, { email }) => ({
        kind: 'confirm',
        title: `Create a reset link for ${email}?`,
        consequence:
          'Anyone with the link and its code can choose a new password for this member. Send both only to this member.',
        submit: 'Create reset link',
        isSafe: true,
      }),
      run: async ({ app, request, organization, actor, transact }, _form, { id }) => {
        const { publicId, email, code } = await transact((tables) =>
          createMemberReset(tables, actor, organization, id),
        );
        const made = linkAndCode(
          `Reset link for ${email}`,
          'Send the link and the code. The code is shown only once. The link can be used once, within 24 hours.',
          ['reset-link', 'reset-code'],
          [`${app.site.origin(request)}/setup/reset/${publicId}`, code],
        );
        return { view: { made } };
      },
    },
    remove: {
      label: 'Remove',
      page: ({ membership }, _form, { email }) => ({
        kind: 'confirm',
        title: `Remove ${email}?`,
        consequence: `This member immediately loses access to ${membership.name}, and API keys on their behalf are revoked. Their past changes remain under their name.`,
        submit: 'Remove member',
      }),
      done: { 'member-removed': '{} removed.' },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => removeMember(tables, actor, organization, id)),
    },
  },
});

/** Open invitations. */
const invitations = defineObject<Invite, MemberServices>({
  name: 'invitations',
  title: membersTexts.later('pendingInvitations'),
  plural: 'invitations',
  source: inviteRows,
  missing: () => closedInvite,
  nameOf: ({ email }) => email,
  columns: [
    { title: 'For', cell: ({ email }) => ({ text: email }), by: 'i.email' },
    { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
    { title: 'Until', cell: ({ expires_at }) => ({ time: expires_at }), by: 'i.expires_at' },
  ],
  empty: 'No pending invitations.',
  rowActions: {
    cancel: {
      label: 'Cancel invitation',
      phrase: 'Cancel the invitation for',
      page: (_context, _form, { email }) => ({
        kind: 'confirm',
        title: `Cancel the invitation for ${email}?`,
        consequence: 'Its link and code stop working immediately.',
        submit: 'Cancel invitation',
      }),
      done: { 'invite-cancelled': 'Invitation for {} canceled.' },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => cancelInvite(tables, actor, organization, id)),
    },
  },
});

/** Registers the pages for members and invitations. */
export function memberPages(app: FastifyInstance, services: MemberServices): void {
  addObjects(app, services, [members, invitations]);
  addHomeStep(app, {
    label: membersTexts.later('inviteColleague'),
    path: 'members/invite',
    isDone: async ({ membership: { organization } }) => {
      const tables = tablesOf(services.database);
      const counts = [
        countRows(tables, memberRows, organization),
        countRows(tables, inviteRows, organization),
      ];
      const [memberCount = 0, inviteCount = 0] = await Promise.all(counts);
      return memberCount + inviteCount > 1;
    },
  });
}
