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
  languages,
  plainText,
  type SecretNotice,
  TranslatedError,
} from '../../admin-ui/shell/index.ts';
import { linkWithCode, type Mailer, mailTemplate } from '../../operations/mail/index.ts';
import {
  adminLinkHours,
  createMemberReset,
  findUsers,
  maxPersonName,
  personLines,
} from '../identity/index.ts';
import { chosenProfile, profileChoice } from '../profiles/index.ts';
import {
  cancelInvite,
  closedInvite,
  type Invite,
  invite,
  inviteDays,
  inviteRows,
  replaceUnmailedCode,
} from './invites.ts';
import { changeMember, type MemberInfo, memberRows, missingMember, removeMember } from './members.ts';
import { membersTexts } from './texts/index.ts';

/** View data: `organization` (name), `link`, `code` and `days` (number of days for which the code is valid). */
const inviteMail = mailTemplate(join(import.meta.dirname, 'invite-mail.hbs'), plainText);

interface MemberServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly mailer: Mailer;
}

/** Returns a notice that contains a link and its code, which the administrator passes on. */
const linkAndCode = (
  t: ReturnType<typeof membersTexts>,
  { title, text }: Pick<SecretNotice, 'title' | 'text'>,
  ids: readonly [string, string],
  [link, code]: readonly [string, string],
): SecretNotice => ({
  title,
  text,
  values: [
    { id: ids[0], label: t('link'), value: link, copy: t('copyLink') },
    { id: ids[1], label: t('code'), value: code, copy: t('copyCode') },
  ],
});

const { later } = membersTexts;

/** Members, and the form for inviting them. */
const members = defineObject<MemberInfo, MemberServices>({
  name: 'members',
  title: later('members'),
  group: 'Access',
  icon: 'users',
  plural: later('memberRows'),
  source: memberRows,
  missing: () => missingMember,
  nameOf: ({ email }) => email,
  columns: [
    {
      title: later('name'),
      cell: personLines,
      by: 'lower(coalesce(u.name, u.email))',
    },
    { title: later('profile'), cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
    { title: later('since'), cell: ({ since }) => ({ time: since }), by: 'm.created_at' },
  ],
  empty: later('noMembers'),
  actions: {
    invite: {
      label: later('inviteMember'),
      isOnce: true,
      page: async (context, form) => {
        const t = membersTexts(context.language);
        return {
          kind: 'form',
          title: t('inviteAMember'),
          inputs: [
            {
              kind: 'email',
              name: 'email',
              label: t('email'),
              required: true,
              value: field(form, 'email').slice(0, 254),
              focus: true,
            },
            {
              kind: 'line',
              name: 'name',
              label: t('name'),
              maxLength: maxPersonName,
              value: field(form, 'name').slice(0, maxPersonName),
              help: t('nameHelp'),
            },
            await profileChoice(context, field(form, 'profile'), t('profileHelp')),
          ],
          submit: t('inviteMember'),
        };
      },
      done: { 'invite-mailed': later('invitationMailed') },
      run: async (context, form) => {
        const { app, request, membership, actor, transact, services } = context;
        const t = membersTexts(context.language);
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
          const language = languages.find((candidate) => known.includes(candidate)) ?? context.language;
          const data = { organization: name, link: linkWithCode(link, code), code, days: inviteDays };
          const mail = inviteMail(email, language, data);
          if (await mailer.send(mail)) return { done: 'invite-mailed', name: email };
        }
        // An email may have arrived even though it was reported as failed, so its code is replaced.
        const code = mailed
          ? await transaction(database, (tables) => replaceUnmailedCode(tables, organization, id))
          : invitation.code;
        return {
          view: {
            ...(mailed && { problem: t('mailFailed') }),
            made: linkAndCode(
              t,
              {
                title: t('invitationFor', { email }),
                text: t('invitationOnce', { days: String(inviteDays) }),
              },
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
      label: later('changeProfile'),
      accessibleName: (email) => later('changeProfileFor', { email }),
      page: async (context, form, { id, email, profile_id }) => {
        const t = membersTexts(context.language);
        const selectedId = field(form, 'profile') || profile_id;
        return {
          kind: 'form',
          title: t('changeProfileFor', { email }),
          inputs: [await profileChoice(context, selectedId, t('profileHelp'))],
          submit: t('changeProfile'),
          danger: { label: t('removeMember'), href: `${context.urlOf('remove')}?id=${id}` },
        };
      },
      done: { 'member-changed': later('profileChanged') },
      run: (context, form, { id }) =>
        context.transact(async (tables) => {
          const profile = await chosenProfile(tables, context, form);
          await changeMember(tables, context.actor, context.organization, id, profile);
        }),
    },
    reset: {
      label: later('resetPassword'),
      accessibleName: (email) => later('resetPasswordFor', { email }),
      isOffered: (_member, { services: { mailer } }) => !mailer.sendsLinks(),
      isOnce: true,
      page: ({ language }, _form, { email }) => {
        const t = membersTexts(language);
        return {
          kind: 'confirm',
          title: t('resetQuestion', { email }),
          consequence: t('resetConsequence'),
          submit: t('createResetLink'),
          isSafe: true,
        };
      },
      run: async ({ app, request, organization, actor, transact, language, services }, _form, { id }) => {
        if (services.mailer.sendsLinks()) throw new TranslatedError(later('resetsAreMailed'));
        const t = membersTexts(language);
        const { publicId, email, code } = await transact((tables) =>
          createMemberReset(tables, actor, organization, id),
        );
        const made = linkAndCode(
          t,
          {
            title: t('resetLinkFor', { email }),
            text: t('resetLinkOnce', { hours: String(adminLinkHours) }),
          },
          ['reset-link', 'reset-code'],
          [`${app.site.origin(request)}/setup/reset/${publicId}`, code],
        );
        return { view: { made } };
      },
    },
    remove: {
      label: later('remove'),
      accessibleName: (email) => later('removeName', { email }),
      page: ({ membership, language }, _form, { email }) => {
        const t = membersTexts(language);
        return {
          kind: 'confirm',
          title: t('removeQuestion', { email }),
          consequence: t('removeConsequence', { organization: membership.name }),
          submit: t('removeMember'),
        };
      },
      done: { 'member-removed': later('memberRemoved') },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => removeMember(tables, actor, organization, id)),
    },
  },
});

/** Open invitations. */
const invitations = defineObject<Invite, MemberServices>({
  name: 'invitations',
  title: later('pendingInvitations'),
  plural: later('invitationRows'),
  source: inviteRows,
  missing: () => closedInvite,
  nameOf: ({ email }) => email,
  columns: [
    { title: later('for'), cell: ({ email }) => ({ text: email }), by: 'i.email' },
    { title: later('profile'), cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
    { title: later('until'), cell: ({ expires_at }) => ({ time: expires_at }), by: 'i.expires_at' },
  ],
  empty: later('noInvitations'),
  rowActions: {
    cancel: {
      label: later('cancelInvitation'),
      accessibleName: (email) => later('cancelInvitationFor', { email }),
      page: ({ language }, _form, { email }) => {
        const t = membersTexts(language);
        return {
          kind: 'confirm',
          title: t('cancelInvitationQuestion', { email }),
          consequence: t('cancelsInvitation'),
          submit: t('cancelInvitation'),
        };
      },
      done: { 'invite-cancelled': later('invitationCanceled') },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => cancelInvite(tables, actor, organization, id)),
    },
  },
});

/** Registers the pages for members and invitations. */
export function memberPages(app: FastifyInstance, services: MemberServices): void {
  addObjects(app, services, [members, invitations]);
  addHomeStep(app, {
    label: later('inviteColleague'),
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
