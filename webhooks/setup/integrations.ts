import type { FastifyInstance, FastifyRequest } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import { platform, sealing } from '../../engine/platform/index.ts';
import { field, idField, section } from '../../plugins/setup/page.ts';
import { channels } from '../channels/index.ts';
import {
  addIntegration,
  changeSecrets,
  endpointPath,
  listIntegrations,
  removeIntegration,
  switchIntegration,
} from '../inbox/integrations.ts';
import { withoutSlash } from '../settings/index.ts';
import type { PageNeeds } from './index.ts';

/** An organization's channels: added with the provider's secret, switched off and on, given new secrets, removed. */
export function integrationPages(app: FastifyInstance, { config, database, settings }: PageNeeds): void {
  const sealed = sealing(config);
  const providers = Object.entries(channels).map(([name, channel]) => ({ name, ...channel }));
  /** Where providers reach the instance: as configured, else as the administrator's browser does. */
  const origin = (request: FastifyRequest) =>
    withoutSlash(settings.current.public_url) || `${request.protocol}://${request.host}`;

  section(app, database, {
    name: 'integrations',
    title: 'Integrations',
    load: async ({ membership: { organization } }, request) => ({
      providers,
      integrations: (await listIntegrations(platform(database), organization)).map((each) => ({
        ...each,
        url: `${origin(request)}${endpointPath(each.provider, each.endpoint)}`,
        needsToken: channels[each.provider]?.tokenLabel !== undefined,
        secretLabel: channels[each.provider]?.secretLabel,
        tokenLabel: channels[each.provider]?.tokenLabel,
        problem:
          each.provider === 'twilio' && settings.current.public_url === ''
            ? 'public_url is not set in config.yaml, so that no delivery can be verified'
            : '',
      })),
    }),
    once: ['add'],
    actions: {
      add: async ({ membership: { organization }, by, transact }, form, request) => {
        const given = {
          organization,
          provider: field(form, 'provider'),
          name: field(form, 'name'),
          secret: field(form, 'secret'),
          token: field(form, 'token'),
        };
        const made = await transact((tables) => addIntegration(tables, by, sealed, given));
        const handshake = channels[given.provider]?.handshake === true;
        return {
          shown: {
            added: {
              name: given.name,
              url: `${origin(request)}${made.path}`,
              verifyToken: handshake ? made.verifyToken : undefined,
            },
          },
        };
      },
      switch: async ({ membership: { organization }, by, transact }, form) => {
        const to = field(form, 'to');
        if (to !== 'on' && to !== 'off') throw new UserError('choose on or off');
        const id = idField(form, 'id');
        await transact((tables) => switchIntegration(tables, by, organization, id, to === 'on'));
        return { done: `integration-${to}` };
      },
      secrets: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        const given = { secret: field(form, 'secret'), token: field(form, 'token') };
        await transact((tables) => changeSecrets(tables, by, sealed, organization, id, given));
        return { done: 'integration-secrets' };
      },
      remove: async ({ membership: { organization }, by, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => removeIntegration(tables, by, organization, id));
        return { done: 'integration-removed' };
      },
    },
  });
}
