import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { UserError } from '../../engine/errors.ts';
import { arrayText } from '../../engine/sql/index.ts';
import { countRows, listRows, tablesOf } from '../../engine/tables/index.ts';
import { sealing } from '../../plugins/access/secrets/index.ts';
import {
  addHomeCheck,
  addHomeStep,
  addObjects,
  type DisplayValue,
  defineObject,
  field,
  type Input,
  type Language,
  nameInput,
  type ObjectContext,
  rowsPerPage,
  type Text,
} from '../../plugins/admin-ui/shell/index.ts';
import {
  availableChannels,
  type Channel,
  type ChannelConfig,
  type Channels,
  channelLabel,
  channelsOf,
} from '../channels/index.ts';
import { ownProperty, type WebhookServices } from '../endpoint/index.ts';
import { withoutSlash } from '../settings/index.ts';
import {
  addIntegration,
  changeSecrets,
  endpointPath,
  type IntegrationInfo,
  integrationRows,
  missingIntegration,
  removeIntegration,
  setIntegrationEnabled,
} from './integrations.ts';
import { inboxTexts } from './texts/index.ts';

/** Services required for integrations. */
export interface InboxServices extends WebhookServices {
  readonly config: ChannelConfig;
}

/** Returns the input fields for a channel's secrets, labeled with the provider's terms. */
const secretInputs = (channel: Channel, prefix: string, isRequired: boolean): Input[] => [
  {
    kind: 'secret',
    name: 'secret',
    label: `${prefix}${channel.secretLabel}`,
    required: isRequired,
    help: `${channel.secretHelp} It is stored encrypted and never displayed.`,
  },
  ...(channel.tokenLabel === undefined
    ? []
    : [
        {
          kind: 'secret' as const,
          name: 'token',
          label: `${prefix}${channel.tokenLabel}`,
          required: isRequired,
          help: channel.tokenHelp,
        },
      ]),
];

/**
 * Returns the origin to configure at providers: `public_url` or, if it is not set, the origin that the
 * administrator's browser uses.
 */
const originOf = ({ request, services: { settings } }: ObjectContext<InboxServices>) =>
  withoutSlash(settings.current.public_url) || `${request.protocol}://${request.host}`;

function problemOf(
  { provider }: IntegrationInfo,
  { config, settings, retiredResources }: InboxServices,
  language: Language = 'en',
): Text | null {
  const t = inboxTexts(language);
  const channels = channelsOf(config);
  const channel = ownProperty(channels, provider);
  if (channel === undefined) return t('unknownChannel', { channel: provider });
  if (channel.signsUrl === true && settings.current.public_url === '') return t('noPublicUrl');
  const resource = channel.needs?.resource;
  return resource === undefined || Object.hasOwn(availableChannels(channels, retiredResources), provider)
    ? null
    : t('retired', { resource });
}

const stateOf = (integration: IntegrationInfo, services: InboxServices): DisplayValue => ({
  text: integration.enabled ? 'Enabled' : 'Disabled',
  state: integration.enabled ? 'good' : 'bad',
  below: problemOf(integration, services),
});

/** Returns the integrations and their secrets. */
const integrations = (channels: Channels) =>
  defineObject<IntegrationInfo, InboxServices>({
    name: 'integrations',
    title: inboxTexts.later('integrations'),
    group: 'Integrations',
    icon: 'plug',
    plural: 'integrations',
    source: integrationRows(channels),
    missing: () => missingIntegration,
    nameOf: ({ name }) => name,
    columns: [
      {
        title: 'Name',
        cell: ({ id, name }, { urlOf }) => ({ text: name, href: `${urlOf('integration')}?id=${id}` }),
        by: 'lower(i.name)',
      },
      { title: 'Provider', cell: ({ label }) => ({ text: label }), by: channelLabel(channels, 'i.provider') },
      { title: 'State', cell: (row, { services }) => stateOf(row, services), by: 'i.enabled' },
    ],
    empty: 'Integrations receive messages and leads from providers such as WhatsApp and Meta Lead Ads.',
    menu: ({ id, name }, { urlOf }) => ({
      links: [{ label: 'Show URL', name: `Show URL for ${name}`, href: `${urlOf('integration')}?id=${id}` }],
    }),
    pages: {
      integration: async (context, integration) => {
        const { id, name, label, provider, endpoint } = integration;
        return {
          kind: 'record',
          title: name,
          values: [
            { label: 'Provider', text: label },
            { label: 'State', ...stateOf(integration, context.services) },
            { label: 'Callback URL', code: `${originOf(context)}${endpointPath(provider, endpoint)}` },
          ],
          links: [
            { label: 'Change secrets', href: `${context.urlOf('secrets')}?id=${id}` },
            { label: 'Show deliveries', href: `/setup/o/${context.slug}/deliveries` },
          ],
          danger: { label: 'Remove integration', href: `${context.urlOf('remove')}?id=${id}` },
        };
      },
    },
    actions: {
      add: {
        label: 'Add integration',
        isOnce: true,
        page: ({ urlOf, services }, form) => {
          const provider = field(form, 'provider');
          const available = availableChannels(channels, services.retiredResources);
          const channel = ownProperty(available, provider);
          if (channel === undefined) {
            const links = Object.entries(available).map(([name, { label }]) => ({
              label,
              href: `${urlOf('add')}?provider=${name}`,
            }));
            const groups = [{ title: 'Choose a provider', links }];
            return { kind: 'home', title: 'Add an integration', lines: [], groups };
          }
          return {
            kind: 'form',
            title: `Add ${channel.label}`,
            hidden: [{ name: 'provider', value: provider }],
            inputs: [
              nameInput(field(form, 'name').slice(0, 200), 'For example, the phone number, page or bot.'),
              ...secretInputs(channel, '', true),
            ],
            submit: 'Add integration',
          };
        },
        run: async (context, form) => {
          const { organization, actor, transact, services } = context;
          const input = {
            organization,
            provider: field(form, 'provider'),
            name: field(form, 'name'),
            secret: field(form, 'secret'),
            token: field(form, 'token'),
          };
          if (!Object.hasOwn(availableChannels(channels, services.retiredResources), input.provider))
            throw new UserError('this provider does not exist');
          const { id, path, verifyToken } = await transact((tables) =>
            addIntegration(tables, actor, { sealing: sealing(services.secrets), channels }, input),
          );
          const hasToken = ownProperty(channels, input.provider)?.handshake === true;
          const url = `${originOf(context)}${path}`;
          return {
            view: {
              marked: id,
              made: {
                title: `Provider setup for ${input.name}`,
                text: hasToken
                  ? 'The verify token is shown only once. You can look up the URL again later.'
                  : 'You can look up the URL again later.',
                values: [
                  { id: 'callback', label: 'Callback URL', value: url, copy: 'Copy URL' },
                  ...(hasToken
                    ? [
                        {
                          id: 'verify-token',
                          label: 'Verify token, shown only once',
                          value: verifyToken,
                          copy: 'Copy token',
                        },
                      ]
                    : []),
                ],
              },
            },
          };
        },
      },
    },
    rowActions: {
      secrets: {
        label: 'Change secrets',
        accessibleName: (name) => `Change secrets for ${name}`,
        page: (_context, _form, { name, provider }) => {
          const channel = ownProperty(channels, provider);
          if (channel === undefined) throw new UserError('this provider does not exist');
          return {
            kind: 'form',
            title: `Change the secrets for ${name}`,
            intro: 'Fields that you leave empty are not changed.',
            inputs: secretInputs(channel, 'New ', false),
            submit: 'Change secrets',
          };
        },
        done: { 'integration-secrets': 'Secrets changed for {}.' },
        run: async ({ organization, actor, transact, services }, form, { id }) => {
          const input = { secret: field(form, 'secret'), token: field(form, 'token') };
          const sealed = sealing(services.secrets);
          await transact((tables) => changeSecrets(tables, actor, sealed, organization, id, input));
        },
      },
      remove: {
        label: 'Remove',
        page: (_context, _form, { name, label }) => ({
          kind: 'confirm',
          title: `Remove ${name}?`,
          consequence: `Its URL will respond with 404, so ${label} can no longer deliver events, and all of its deliveries will be deleted. To pause it, disable it instead.`,
          submit: 'Remove integration',
        }),
        done: { 'integration-removed': '{} and its deliveries have been removed.' },
        run: ({ organization, actor, transact }, _form, { id }) =>
          transact((tables) => removeIntegration(tables, actor, organization, id)),
      },
      switch: {
        label: (_language, { enabled }) => (enabled ? 'Disable' : 'Enable'),
        fields: ({ enabled }) => [{ name: 'to', value: enabled ? 'off' : 'on' }],
        done: {
          'integration-on': '{} enabled.',
          'integration-off': '{} disabled. Its URL responds with 404, and waiting events are kept.',
        },
        run: async ({ organization, actor, transact }, form, { id, name }) => {
          const to = field(form, 'to');
          if (to !== 'on' && to !== 'off') throw new UserError('to must be on or off');
          await transact((tables) => setIntegrationEnabled(tables, actor, organization, id, to === 'on'));
          return { done: `integration-${to}`, name, id };
        },
      },
    },
  });

/** Adds the pages for integrations, and the check that reports integrations that cannot receive events. */
export function integrationPages(app: FastifyInstance, services: InboxServices): void {
  const channels = channelsOf(services.config);
  const source = integrationRows(channels);
  addHomeStep(app, {
    label: inboxTexts.later('connectChannel'),
    path: 'integrations/add',
    isDone: async ({ membership: { organization } }) =>
      (await countRows(tablesOf(services.database), source, organization)) > 0,
  });
  addHomeCheck(app, async ({ membership: { organization, slug } }, language) => {
    const t = inboxTexts(language);
    const { settings, database } = services;
    const usable = Object.entries(channels)
      .filter(([, { signsUrl }]) => signsUrl !== true || settings.current.public_url !== '')
      .map(([name]) => name);
    const where = [sql`not i.enabled or not i.provider = any(${arrayText(usable)}::text[])`];
    const page = { where, limit: rowsPerPage };
    const rows = await listRows(tablesOf(database), source, organization, page);
    return rows.map((integration) => ({
      state: 'warn' as const,
      text: t('state', {
        name: integration.name,
        provider: integration.label,
        problem: (integration.enabled ? problemOf(integration, services, language) : null) ?? t('disabled'),
      }),
      link: {
        label: t('showIntegration'),
        name: t('showIntegrationNamed', { name: integration.name }),
        href: `/setup/o/${slug}/integrations/integration?id=${integration.id}`,
      },
    }));
  });
  addObjects(app, services, [integrations(channels)]);
}
