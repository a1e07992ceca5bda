import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
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
  joinTexts,
  type Language,
  nameInput,
  type ObjectContext,
  ownWords,
  rowsPerPage,
  type Text,
  TranslatedError,
  textIn,
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

const { later } = inboxTexts;

/** Services required for integrations. */
export interface InboxServices extends WebhookServices {
  readonly config: ChannelConfig;
}

/** Returns the input fields for a channel's secrets, labeled with the provider's terms. */
function secretInputs(channel: Channel, isNew: boolean, language: Language): Input<Text>[] {
  const t = inboxTexts(language);
  const labelOf = (label: string) => (isNew ? ownWords(label) : t('newSecret', { label }));
  const { secretLabel, secretHelp, tokenLabel, tokenHelp } = channel;
  return [
    {
      kind: 'secret',
      name: 'secret',
      label: labelOf(secretLabel),
      required: isNew,
      help: joinTexts([textIn(secretHelp, language), t('storedEncrypted')]),
    },
    ...(tokenLabel === undefined
      ? []
      : [
          {
            kind: 'secret' as const,
            name: 'token',
            label: labelOf(tokenLabel),
            required: isNew,
            help: tokenHelp === undefined ? undefined : textIn(tokenHelp, language),
          },
        ]),
  ];
}

/**
 * Returns the origin to configure at providers: `public_url` or, if it is not set, the origin that the
 * administrator's browser uses.
 */
const originOf = ({ request, services: { settings } }: ObjectContext<InboxServices>) =>
  withoutSlash(settings.current.public_url) || `${request.protocol}://${request.host}`;

function problemOf(
  { provider }: IntegrationInfo,
  { config, settings, retiredResources }: InboxServices,
  language: Language,
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

function stateOf(
  integration: IntegrationInfo,
  { services, language }: Pick<ObjectContext<InboxServices>, 'services' | 'language'>,
): DisplayValue {
  const t = inboxTexts(language);
  return {
    text: integration.enabled ? t('enabledState') : t('disabledState'),
    state: integration.enabled ? 'good' : 'bad',
    below: problemOf(integration, services, language),
  };
}

/** Returns the integrations and their secrets. */
const integrations = (channels: Channels) =>
  defineObject<IntegrationInfo, InboxServices>({
    name: 'integrations',
    title: inboxTexts.later('integrations'),
    group: 'Integrations',
    icon: 'plug',
    plural: later('rows'),
    source: integrationRows(channels),
    missing: () => missingIntegration,
    nameOf: ({ name }) => name,
    columns: [
      {
        title: later('name'),
        cell: ({ id, name }, { urlOf }) => ({ text: name, href: `${urlOf('integration')}?id=${id}` }),
        by: 'lower(i.name)',
      },
      {
        title: later('provider'),
        cell: ({ label }) => ({ text: label }),
        by: channelLabel(channels, 'i.provider'),
      },
      { title: later('stateColumn'), cell: stateOf, by: 'i.enabled' },
    ],
    empty: later('none'),
    menu: ({ id, name }, { urlOf, language }) => {
      const t = inboxTexts(language);
      const href = `${urlOf('integration')}?id=${id}`;
      return { links: [{ label: t('showUrl'), name: t('showUrlFor', { name }), href }] };
    },
    pages: {
      integration: async (context, integration) => {
        const t = inboxTexts(context.language);
        const { id, name, label, provider, endpoint } = integration;
        return {
          kind: 'record',
          title: name,
          values: [
            { label: t('provider'), text: label },
            { label: t('stateColumn'), ...stateOf(integration, context) },
            { label: t('callbackUrl'), code: `${originOf(context)}${endpointPath(provider, endpoint)}` },
          ],
          links: [
            { label: t('changeSecrets'), href: `${context.urlOf('secrets')}?id=${id}` },
            { label: t('showDeliveries'), href: `/setup/o/${context.slug}/deliveries` },
          ],
          danger: { label: t('removeIntegration'), href: `${context.urlOf('remove')}?id=${id}` },
        };
      },
    },
    actions: {
      add: {
        label: later('add'),
        isOnce: true,
        page: ({ urlOf, services, language }, form) => {
          const t = inboxTexts(language);
          const provider = field(form, 'provider');
          const available = availableChannels(channels, services.retiredResources);
          const channel = ownProperty(available, provider);
          if (channel === undefined) {
            const links = Object.entries(available).map(([name, { label }]) => ({
              label,
              href: `${urlOf('add')}?provider=${name}`,
            }));
            const groups = [{ title: t('chooseProvider'), links }];
            return { kind: 'home', title: t('addAnIntegration'), lines: [], groups };
          }
          return {
            kind: 'form',
            title: t('addChannel', { channel: channel.label }),
            hidden: [{ name: 'provider', value: provider }],
            inputs: [
              nameInput(t('name'), field(form, 'name').slice(0, 200), t('nameHelp')),
              ...secretInputs(channel, true, language),
            ],
            submit: t('add'),
          };
        },
        run: async (context, form) => {
          const { organization, actor, transact, services, language } = context;
          const input = {
            organization,
            provider: field(form, 'provider'),
            name: field(form, 'name'),
            secret: field(form, 'secret'),
            token: field(form, 'token'),
          };
          if (!Object.hasOwn(availableChannels(channels, services.retiredResources), input.provider))
            throw new TranslatedError(later('missingProvider'));
          const t = inboxTexts(language);
          const { id, path, verifyToken } = await transact((tables) =>
            addIntegration(tables, actor, { sealing: sealing(services.secrets), channels }, input),
          );
          const hasToken = ownProperty(channels, input.provider)?.handshake === true;
          const url = `${originOf(context)}${path}`;
          return {
            view: {
              marked: id,
              made: {
                title: t('setupFor', { name: input.name }),
                text: hasToken ? t('tokenOnce') : t('urlLater'),
                values: [
                  { id: 'callback', label: t('callbackUrl'), value: url, copy: t('copyUrl') },
                  ...(hasToken
                    ? [
                        {
                          id: 'verify-token',
                          label: t('verifyToken'),
                          value: verifyToken,
                          copy: t('copyToken'),
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
        label: later('changeSecrets'),
        accessibleName: (name) => later('changeSecretsFor', { name }),
        page: ({ language }, _form, { name, provider }) => {
          const t = inboxTexts(language);
          const channel = ownProperty(channels, provider);
          if (channel === undefined) throw new TranslatedError(later('missingProvider'));
          return {
            kind: 'form',
            title: t('changeSecretsOf', { name }),
            intro: t('emptyUnchanged'),
            inputs: secretInputs(channel, false, language),
            submit: t('changeSecrets'),
          };
        },
        done: { 'integration-secrets': later('secretsChanged') },
        run: async ({ organization, actor, transact, services }, form, { id }) => {
          const input = { secret: field(form, 'secret'), token: field(form, 'token') };
          const sealed = sealing(services.secrets);
          await transact((tables) => changeSecrets(tables, actor, sealed, organization, id, input));
        },
      },
      remove: {
        label: later('remove'),
        accessibleName: (name) => later('removeName', { name }),
        page: ({ language }, _form, { name, label }) => {
          const t = inboxTexts(language);
          return {
            kind: 'confirm',
            title: t('removeQuestion', { name }),
            consequence: t('removeConsequence', { provider: label }),
            submit: t('removeIntegration'),
          };
        },
        done: { 'integration-removed': later('removed') },
        run: ({ organization, actor, transact }, _form, { id }) =>
          transact((tables) => removeIntegration(tables, actor, organization, id)),
      },
      switch: {
        label: (language, { enabled }) => (enabled ? later('disable') : later('enable'))(language),
        accessibleName: (name, { enabled }) =>
          enabled ? later('disableName', { name }) : later('enableName', { name }),
        fields: ({ enabled }) => [{ name: 'to', value: enabled ? 'off' : 'on' }],
        done: {
          'integration-on': later('switchedOn'),
          'integration-off': later('switchedOff'),
        },
        run: async ({ organization, actor, transact }, form, { id, name }) => {
          const to = field(form, 'to');
          if (to !== 'on' && to !== 'off') throw new TranslatedError(later('onOrOff'));
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
    const usable = Object.entries(availableChannels(channels, services.retiredResources))
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
