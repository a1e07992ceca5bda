import type { FastifyInstance, FastifyRequest } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { field, idField, section, viewsIn } from '../../plugins/screens/index.ts';
import { sealing } from '../../plugins/secrets/index.ts';
import { channels } from '../channels/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { withoutSlash } from '../settings/index.ts';
import {
  addIntegration,
  changeSecrets,
  endpointPath,
  listIntegrations,
  removeIntegration,
  switchIntegration,
} from './integrations.ts';

/** The page to add, switch on and off, and remove an organization's integrations, and to change their secrets. */
export function integrationPages(
  app: FastifyInstance,
  { secrets, database, settings }: WebhookServices,
): void {
  const sealed = sealing(secrets);
  const providers = Object.entries(channels).map(([name, channel]) => ({ name, ...channel }));
  /** The address for providers: `public_url`, else the address that the administrator's browser uses. */
  const origin = (request: FastifyRequest) =>
    withoutSlash(settings.current.public_url) || `${request.protocol}://${request.host}`;

  section(app, database, {
    name: 'integrations',
    title: 'Integrations',
    view: viewsIn(import.meta.dirname)('integrations'),
    done: {
      'integration-on': 'The integration is on.',
      'integration-off': 'The integration is off: its address responds 404, and waiting events are kept.',
      'integration-secrets': 'The new secrets are stored, encrypted.',
      'integration-removed': 'The integration and its deliveries are removed.',
    },
    load: async ({ membership: { organization } }, request) => ({
      providers,
      integrations: (await listIntegrations(tablesOf(database), organization)).map((each) => ({
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
      add: async ({ membership: { organization }, actor, transact }, form, request) => {
        const given = {
          organization,
          provider: field(form, 'provider'),
          name: field(form, 'name'),
          secret: field(form, 'secret'),
          token: field(form, 'token'),
        };
        const made = await transact((tables) => addIntegration(tables, actor, sealed, given));
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
      switch: async ({ membership: { organization }, actor, transact }, form) => {
        const to = field(form, 'to');
        if (to !== 'on' && to !== 'off') throw new UserError('choose on or off');
        const id = idField(form, 'id');
        await transact((tables) => switchIntegration(tables, actor, organization, id, to === 'on'));
        return { done: `integration-${to}` };
      },
      secrets: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const given = { secret: field(form, 'secret'), token: field(form, 'token') };
        await transact((tables) => changeSecrets(tables, actor, sealed, organization, id, given));
        return { done: 'integration-secrets' };
      },
      remove: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => removeIntegration(tables, actor, organization, id));
        return { done: 'integration-removed' };
      },
    },
  });
}
