import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sql } from 'kysely';
import type { Actor } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { deleteExpired } from '../../../engine/modules/index.ts';
import { findRow, type RowSource, type Tables, transaction } from '../../../engine/tables/index.ts';
import {
  addDoneTexts,
  addObjects,
  type DisplayValue,
  defineObject,
  type Form,
  idField,
  type ListContext,
  type ListDefinition,
  languageOf,
  messageIn,
  personOf,
  redirectDone,
  redirectGetToForm,
  show,
  signedIn,
  type TextIn,
  TranslatedError,
  userList,
} from '../../admin-ui/shell/index.ts';
import { accessLine, accessSql, type KeyAccess, keyStates, revokeKey } from '../api-keys/index.ts';
import { personLines } from '../identity/index.ts';
import { addPersonalSection } from '../login/index.ts';
import { isMcpEnabled, type OAuthServices } from './services.ts';
import { oauthTexts } from './texts/index.ts';

const { later } = oauthTexts;

/** An app that a member has connected. */
interface AppInfo {
  readonly id: string;
  /** The client's name and host. */
  readonly name: string;
  readonly organization: string;
  readonly organization_id: string;
  readonly member: string;
  readonly member_name: string | null;
  readonly profile: string;
  readonly access: KeyAccess;
  readonly created_at: Date;
  readonly last_used_at: Date | null;
  readonly expires_at: Date;
  readonly revoked_at: Date | null;
}

/** An organization's connected apps, newest first. */
const appRows: RowSource<AppInfo> = {
  from: `crm_api_keys k
    join crm_organizations o on o.id = k.organization_id
    join crm_memberships m on m.organization_id = k.organization_id and m.user_id = k.on_behalf_of_id
    join crm_users u on u.id = m.user_id
    join crm_profiles p on p.organization_id = k.organization_id and p.id = k.profile_id`,
  owner: 'k.organization_id',
  where: 'k.client_id is not null',
  columns: {
    id: 'k.id',
    name: 'k.name',
    organization: 'o.name',
    organization_id: 'k.organization_id',
    member: 'u.email',
    member_name: 'u.name',
    profile: 'p.name',
    access: accessSql,
    created_at: 'k.created_at',
    last_used_at: 'k.last_used_at',
    expires_at: 'k.expires_at',
    revoked_at: 'k.revoked_at',
  },
  search: ['k.name', 'u.name', 'u.email', 'p.name'],
  order: 'k.id desc',
};

/** A user's connected apps in all organizations, newest first, without ended ones. */
const ownAppRows: RowSource<AppInfo> = {
  ...appRows,
  owner: 'm.user_id',
  where: `k.client_id is not null and ${keyStates.live}`,
  search: ['k.name', 'o.name', 'p.name'],
};

/** Days after which an app that has ended is deleted. */
const endedDays = 30;

/** Deletes a batch of apps that ended long ago, with their keys. @returns the number of deleted rows */
export const appsRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_api_keys',
    ['organization_id', 'id'],
    sql`client_id is not null
      and least(coalesce(revoked_at, 'infinity'), expires_at) < now() - ${endedDays}::int * interval '1 day'`,
    'expires_at',
  );

const isLive = ({ revoked_at, expires_at }: AppInfo): boolean =>
  revoked_at === null && expires_at > new Date();

function stateCell(app: AppInfo, { language }: ListContext<OAuthServices>): DisplayValue {
  const t = oauthTexts(language);
  if (app.revoked_at !== null) return { text: t('stateDisconnected'), time: app.revoked_at, state: 'quiet' };
  return isLive(app)
    ? { text: t('stateConnected'), time: app.expires_at, state: 'good' }
    : { text: t('stateExpired'), time: app.expires_at, state: 'quiet' };
}

const permissions = (
  { profile, access }: AppInfo,
  { language }: ListContext<OAuthServices>,
): DisplayValue => ({ text: profile, ...accessLine(access, language) });

const lastUsed = (
  { id, last_used_at }: AppInfo,
  { app, language }: ListContext<OAuthServices>,
): DisplayValue => {
  const time = app.keyLastUsed(id) ?? last_used_at;
  return time === null ? { text: oauthTexts(language)('never') } : { time };
};

/** Returns the message for an app that does not exist. */
const missingApp = (id: string): TextIn => later('missing', { id });

/** URL of the user's own list. */
const ownPath = '/setup/me/apps';

const ownApps: ListDefinition<AppInfo, ListContext<OAuthServices>> = {
  source: ownAppRows,
  plural: later('rows'),
  columns: [
    { title: later('app'), cell: ({ name }) => ({ text: name }), by: 'lower(k.name)' },
    {
      title: later('organization'),
      cell: ({ organization }) => ({ text: organization }),
      by: 'lower(o.name)',
    },
    { title: later('profile'), cell: permissions, by: 'lower(p.name)' },
    { title: later('connected'), cell: ({ created_at }) => ({ time: created_at }), by: 'k.created_at' },
    { title: later('lastUsed'), cell: lastUsed, by: 'k.last_used_at' },
    { title: later('expires'), cell: ({ expires_at }) => ({ time: expires_at }), by: 'k.expires_at' },
  ],
  empty: later('noneOwn'),
  menu: ({ id, name }, { urlOf, language }) => {
    const t = oauthTexts(language);
    return {
      buttons: [
        {
          label: t('disconnect'),
          name: t('disconnectName', { name }),
          action: urlOf('disconnect'),
          fields: [{ name: 'id', value: id }],
        },
      ],
    };
  },
};

/** Disconnects one of a user's own apps. @throws UserError if it does not exist or has already ended */
async function disconnectOwn(tables: Tables, actor: Actor, user: string, id: string): Promise<AppInfo> {
  const app = await findRow(tables, ownAppRows, user, id);
  if (app === undefined) throw new TranslatedError(missingApp(id));
  await revokeKey(tables, actor, app.organization_id, id);
  return app;
}

/** Registers the lists of connected apps: the user's own, and the organization's for administrators. */
export function appPages(app: FastifyInstance, services: OAuthServices): void {
  const isEnabled = () => isMcpEnabled(services);
  addObjects(app, services, [
    defineObject<AppInfo, OAuthServices>({
      name: 'apps',
      title: later('connectedApps'),
      group: 'Access',
      icon: 'plug',
      isListed: isEnabled,
      plural: later('rows'),
      source: appRows,
      missing: missingApp,
      nameOf: ({ name }) => name,
      views: {
        live: { label: later('connected'), where: keyStates.live },
        ended: { label: later('ended'), where: `not (${keyStates.live})` },
        all: { label: later('all') },
      },
      columns: [
        { title: later('app'), cell: ({ name }) => ({ text: name }), by: 'lower(k.name)' },
        {
          title: later('member'),
          cell: ({ member: email, member_name: name }) => personLines({ name, email }),
          by: 'lower(coalesce(u.name, u.email))',
        },
        { title: later('profile'), cell: permissions, by: 'lower(p.name)' },
        { title: later('connected'), cell: ({ created_at }) => ({ time: created_at }), by: 'k.created_at' },
        { title: later('lastUsed'), cell: lastUsed, by: 'k.last_used_at' },
        { title: later('state'), cell: stateCell, by: 'k.expires_at' },
      ],
      empty: later('none'),
      rowActions: {
        disconnect: {
          label: later('disconnect'),
          accessibleName: (name) => later('disconnectName', { name }),
          isOffered: isLive,
          page: ({ language }, _form, { name, member }) => {
            const t = oauthTexts(language);
            return {
              kind: 'confirm',
              title: t('disconnectQuestion', { name, member }),
              consequence: t('disconnectConsequence'),
              submit: t('disconnectApp'),
            };
          },
          done: { 'app-disconnected': later('appDisconnected') },
          run: ({ organization, actor, transact }, _form, { id }) =>
            transact((tables) => revokeKey(tables, actor, organization, id)),
        },
      },
    }),
  ]);

  const listOwn = userList(app, services, ownPath, ownApps);
  addDoneTexts(app, { disconnected: later('disconnected') });
  addPersonalSection(app, (language) => {
    const t = oauthTexts(language);
    return isEnabled()
      ? {
          title: t('connectedApps'),
          text: t('ownApps'),
          link: { label: t('showApps'), href: ownPath },
        }
      : undefined;
  });
  const showOwn = async (request: FastifyRequest, reply: FastifyReply, problem?: string) => {
    const language = languageOf(request);
    const t = oauthTexts(language);
    return show(
      request,
      reply,
      {
        kind: 'list',
        ...(await listOwn(request)),
        title: t('connectedApps'),
        ...(problem === undefined ? { above: { label: t('you'), href: '/setup/me' } } : { problem }),
      },
      { language },
    );
  };
  app.get('/me/apps', { preHandler: signedIn(app) }, async (request, reply) => showOwn(request, reply));
  const preHandler = [signedIn(app), app.csrfProtection];
  app.post('/me/apps/disconnect', { preHandler }, async (request, reply) => {
    const { user } = personOf(request).session;
    try {
      const id = idField((request.body ?? {}) as Form, 'id');
      const { name } = await transaction(services.database, (tables) =>
        disconnectOwn(tables, app.actor(request, user), user.id, id),
      );
      return await redirectDone(request, reply, ownPath, 'disconnected', { name });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      reply.code(400);
      return showOwn(request, reply, messageIn(error, languageOf(request)));
    }
  });
  redirectGetToForm(app, '/me/apps/disconnect', () => ownPath);
}
