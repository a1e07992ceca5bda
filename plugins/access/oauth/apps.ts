import type { FastifyInstance } from 'fastify';
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
  personOf,
  redirectDone,
  redirectGetToForm,
  show,
  signedIn,
  userList,
} from '../../admin-ui/shell/index.ts';
import { keyStates, revokeKey } from '../api-keys/index.ts';
import { personLines } from '../identity/index.ts';
import { addPersonalSection } from '../login/index.ts';
import type { OAuthServices } from './services.ts';

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
  readonly read_only: boolean;
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
    read_only: 'k.read_only',
    created_at: 'k.created_at',
    last_used_at: 'k.last_used_at',
    expires_at: 'k.expires_at',
    revoked_at: 'k.revoked_at',
  },
  search: ['k.name', 'u.name', 'u.email', 'p.name'],
  order: 'k.id desc',
};

/** A user's connected apps in all organizations, newest first, without those that have ended. */
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

const stateCell = (app: AppInfo): DisplayValue =>
  app.revoked_at !== null
    ? { text: 'disconnected', time: app.revoked_at, state: 'quiet' }
    : isLive(app)
      ? { text: 'connected, expires', time: app.expires_at, state: 'good' }
      : { text: 'expired', time: app.expires_at, state: 'quiet' };

const access = ({ profile, read_only }: AppInfo): DisplayValue => ({
  text: profile,
  ...(read_only && { below: 'read only' }),
});

const lastUsed = ({ id, last_used_at }: AppInfo, { app }: ListContext<OAuthServices>): DisplayValue => {
  const time = app.keyLastUsed(id) ?? last_used_at;
  return time === null ? { text: 'never' } : { time };
};

/** Returns the message for an app that does not exist. */
const missingApp = (id: string): string => `connected app ${id} does not exist`;

/** URL of the user's own list. */
const ownPath = '/setup/me/apps';

const ownApps: ListDefinition<AppInfo, ListContext<OAuthServices>> = {
  source: ownAppRows,
  plural: 'connected apps',
  columns: [
    { title: 'App', cell: ({ name }) => ({ text: name }), by: 'lower(k.name)' },
    { title: 'Organization', cell: ({ organization }) => ({ text: organization }), by: 'lower(o.name)' },
    { title: 'Profile', cell: access, by: 'lower(p.name)' },
    { title: 'Connected', cell: ({ created_at }) => ({ time: created_at }), by: 'k.created_at' },
    { title: 'Last used', cell: lastUsed, by: 'k.last_used_at' },
    { title: 'Expires', cell: ({ expires_at }) => ({ time: expires_at }), by: 'k.expires_at' },
  ],
  empty: 'Apps that you allow to act for you, for example assistants, are listed here.',
  menu: ({ id, name }, { urlOf }) => ({
    buttons: [
      {
        label: 'Disconnect',
        name: `Disconnect ${name}`,
        action: urlOf('disconnect'),
        fields: [{ name: 'id', value: id }],
      },
    ],
  }),
};

/** Disconnects one of a user's own apps. @throws UserError if it does not exist or has already ended */
async function disconnectOwn(tables: Tables, actor: Actor, user: string, id: string): Promise<AppInfo> {
  const app = await findRow(tables, ownAppRows, user, id);
  if (app === undefined) throw new UserError(missingApp(id));
  await revokeKey(tables, actor, app.organization_id, id);
  return app;
}

/** Registers the lists of connected apps: the user's own, and the organization's for administrators. */
export function appPages(app: FastifyInstance, services: OAuthServices): void {
  const isEnabled = () => services.settings.current.mcp !== false;
  addObjects(app, services, [
    defineObject<AppInfo, OAuthServices>({
      name: 'apps',
      title: 'Connected apps',
      group: 'Access',
      icon: 'plug',
      isListed: isEnabled,
      plural: 'connected apps',
      source: appRows,
      missing: missingApp,
      nameOf: ({ name }) => name,
      views: {
        live: { label: 'Connected', where: keyStates.live },
        ended: { label: 'Ended', where: `not (${keyStates.live})` },
        all: { label: 'All' },
      },
      columns: [
        { title: 'App', cell: ({ name }) => ({ text: name }), by: 'lower(k.name)' },
        {
          title: 'Member',
          cell: ({ member: email, member_name: name }) => personLines({ name, email }),
          by: 'lower(coalesce(u.name, u.email))',
        },
        { title: 'Profile', cell: access, by: 'lower(p.name)' },
        { title: 'Connected', cell: ({ created_at }) => ({ time: created_at }), by: 'k.created_at' },
        { title: 'Last used', cell: lastUsed, by: 'k.last_used_at' },
        { title: 'State', cell: stateCell, by: 'k.expires_at' },
      ],
      empty: 'Members can connect apps that act for them, for example assistants.',
      rowActions: {
        disconnect: {
          label: 'Disconnect',
          isOffered: isLive,
          page: (_context, _form, { name, member }) => ({
            kind: 'confirm',
            title: `Disconnect ${name} from ${member}?`,
            consequence: 'The app gets 401 immediately. The member can connect it again.',
            submit: 'Disconnect app',
          }),
          done: { 'app-disconnected': '{} disconnected. Every node rejects it within a second.' },
          run: ({ organization, actor, transact }, _form, { id }) =>
            transact((tables) => revokeKey(tables, actor, organization, id)),
        },
      },
    }),
  ]);

  const listOwn = userList(app, services, ownPath, ownApps);
  addDoneTexts(app, { disconnected: '{} disconnected.' });
  addPersonalSection(app, () =>
    isEnabled()
      ? {
          title: 'Connected apps',
          text: 'Apps that you allow to act for you, for example assistants.',
          link: { label: 'Show connected apps', href: ownPath },
        }
      : undefined,
  );
  app.get('/me/apps', { preHandler: signedIn(app) }, async (request, reply) =>
    show(request, reply, {
      kind: 'list',
      ...(await listOwn(request)),
      title: 'Connected apps',
      above: { label: 'You', href: '/setup/me' },
    }),
  );
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
      return show(request, reply, {
        kind: 'list',
        ...(await listOwn(request)),
        title: 'Connected apps',
        problem: error.message,
      });
    }
  });
  redirectGetToForm(app, '/me/apps/disconnect', () => ownPath);
}
