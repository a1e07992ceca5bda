import type { FastifyInstance, FastifyRequest } from 'fastify';
import { UserError } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { sealing } from '../../plugins/access/secrets/index.ts';
import {
  addHomeCheck,
  type Form,
  field,
  type Input,
  idField,
  listing,
  nameInput,
  section,
} from '../../plugins/admin-ui/shell/index.ts';
import { type Channel, channelOf, channels } from '../channels/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { withoutSlash } from '../settings/index.ts';
import {
  addIntegration,
  changeSecrets,
  endpointPath,
  type IntegrationInfo,
  listIntegrations,
  removeIntegration,
  setIntegrationEnabled,
} from './integrations.ts';

/** Returns the inputs for a channel's secrets, labeled with the provider's terms. */
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

/** Adds the pages for managing an organization's integrations and their secrets. */
export function integrationPages(
  app: FastifyInstance,
  { secrets, database, settings }: WebhookServices,
): void {
  const sealed = sealing(secrets);
  /**
   * Returns the origin to configure at providers: `public_url` or, if it is not set, the origin in the administrator's
   * browser.
   */
  const origin = (request: FastifyRequest) =>
    withoutSlash(settings.current.public_url) || `${request.protocol}://${request.host}`;
  const integrationOf = async (organization: string, input: Form): Promise<IntegrationInfo> => {
    const id = idField(input, 'id');
    const integration = (await listIntegrations(tablesOf(database), organization)).find(
      (candidate) => candidate.id === id,
    );
    if (integration === undefined) throw new UserError('this integration does not exist');
    return integration;
  };
  const problemOf = ({ provider }: IntegrationInfo) =>
    provider === 'twilio' && settings.current.public_url === ''
      ? 'public_url is not set in config.yaml, so deliveries cannot be verified'
      : null;
  const stateOf = (integration: IntegrationInfo) =>
    integration.enabled
      ? ({ text: 'Enabled', state: 'good', below: problemOf(integration) } as const)
      : ({ text: 'Disabled', state: 'bad', below: problemOf(integration) } as const);

  addHomeCheck(app, async ({ membership: { organization, slug } }) =>
    (await listIntegrations(tablesOf(database), organization)).flatMap((integration) => {
      const problem = integration.enabled ? problemOf(integration) : 'disabled, so its URL responds with 404';
      return problem === null
        ? []
        : [
            {
              state: 'warn' as const,
              text: `${integration.name} (${integration.label}): ${problem}.`,
              link: {
                label: 'Show integration',
                name: `Show integration ${integration.name}`,
                href: `/setup/o/${slug}/integrations/integration?id=${integration.id}`,
              },
            },
          ];
    }),
  );

  section(app, database, {
    name: 'integrations',
    title: 'Integrations',
    done: {
      'integration-on': '{} enabled.',
      'integration-off': '{} disabled. Its URL responds with 404, and waiting events are kept.',
      'integration-secrets': 'Secrets changed for {}.',
      'integration-removed': '{} and its deliveries have been removed.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const pagePath = (page: string) => `/setup/o/${slug}/integrations/${page}`;
      const primary = { label: 'Add integration', href: pagePath('add') };
      return {
        primary,
        ...listing(request, await listIntegrations(tablesOf(database), organization), {
          searchLabel: 'Search integrations',
          text: ({ name, label }) => `${name} ${label}`,
          columns: [
            {
              title: 'Name',
              cell: ({ id, name }) => ({ text: name, href: `${pagePath('integration')}?id=${id}` }),
              by: ({ name }) => name,
            },
            { title: 'Provider', cell: ({ label }) => ({ text: label }), by: ({ label }) => label },
            { title: 'State', cell: stateOf, by: ({ enabled }) => String(enabled) },
          ],
          row: ({ id, name, enabled }) => ({
            id,
            links: [
              {
                label: 'Show URL',
                name: `Show URL for ${name}`,
                href: `${pagePath('integration')}?id=${id}`,
              },
              {
                label: 'Change secrets',
                name: `Change secrets for ${name}`,
                href: `${pagePath('secrets')}?id=${id}`,
              },
              { label: 'Remove', name: `Remove ${name}`, href: `${pagePath('remove')}?id=${id}` },
            ],
            buttons: [
              {
                label: enabled ? 'Disable' : 'Enable',
                name: `${enabled ? 'Disable' : 'Enable'} ${name}`,
                action: pagePath('switch'),
                fields: [
                  { name: 'id', value: id },
                  { name: 'to', value: enabled ? 'off' : 'on' },
                ],
              },
            ],
          }),
          empty: {
            text: 'Integrations receive messages and leads from providers such as WhatsApp and Meta Lead Ads.',
            link: primary,
          },
        }),
      };
    },
    pages: {
      integration: async ({ membership: { organization, slug } }, { form, request }) => {
        const integration = await integrationOf(organization, form);
        const { id, name, label, provider, endpoint } = integration;
        return {
          kind: 'record',
          title: name,
          values: [
            { label: 'Provider', text: label },
            { label: 'State', ...stateOf(integration) },
            { label: 'Callback URL', code: `${origin(request)}${endpointPath(provider, endpoint)}` },
          ],
          links: [
            { label: 'Change secrets', href: `/setup/o/${slug}/integrations/secrets?id=${id}` },
            { label: 'Show deliveries', href: `/setup/o/${slug}/deliveries` },
          ],
          danger: { label: 'Remove integration', href: `/setup/o/${slug}/integrations/remove?id=${id}` },
        };
      },
      add: async ({ membership: { slug } }, { form, back }) => {
        const path = `/setup/o/${slug}/integrations/add`;
        const provider = field(form, 'provider');
        const channel = channelOf(provider);
        if (channel === undefined) {
          const links = Object.entries(channels).map(([name, { label }]) => ({
            label,
            href: `${path}?provider=${name}`,
          }));
          return {
            kind: 'home',
            title: 'Add an integration',
            lines: [],
            groups: [{ title: 'Choose a provider', links }],
          };
        }
        return {
          kind: 'form',
          title: `Add ${channel.label}`,
          action: path,
          hidden: [{ name: 'provider', value: provider }],
          inputs: [
            nameInput(field(form, 'name').slice(0, 200), 'For example, the phone number, page or bot.'),
            ...secretInputs(channel, '', true),
          ],
          submit: 'Add integration',
          cancel: back,
        };
      },
      secrets: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, name, provider } = await integrationOf(organization, form);
        const channel = channelOf(provider);
        if (channel === undefined) throw new UserError('this provider does not exist');
        return {
          kind: 'form',
          title: `Change the secrets for ${name}`,
          intro: 'Fields that you leave empty are not changed.',
          action: `/setup/o/${slug}/integrations/secrets`,
          hidden: [{ name: 'id', value: id }],
          inputs: secretInputs(channel, 'New ', false),
          submit: 'Change secrets',
          cancel: back,
        };
      },
      remove: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, name, label } = await integrationOf(organization, form);
        return {
          kind: 'confirm',
          title: `Remove ${name}?`,
          consequence: `Its URL will respond with 404, so ${label} can no longer deliver, and all its deliveries will be deleted. To pause it, disable it instead.`,
          action: `/setup/o/${slug}/integrations/remove`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Remove integration',
          cancel: back,
        };
      },
    },
    once: ['add'],
    actions: {
      add: async ({ membership: { organization }, actor, transact }, form, request) => {
        const input = {
          organization,
          provider: field(form, 'provider'),
          name: field(form, 'name'),
          secret: field(form, 'secret'),
          token: field(form, 'token'),
        };
        const integration = await transact((tables) => addIntegration(tables, actor, sealed, input));
        const hasToken = channelOf(input.provider)?.handshake === true;
        return {
          view: {
            marked: integration.id,
            made: {
              title: `Provider setup for ${input.name}`,
              text: hasToken
                ? 'The verify token is shown only once. You can look up the URL again later.'
                : 'You can look up the URL again later.',
              values: [
                {
                  id: 'callback',
                  label: 'Callback URL',
                  value: `${origin(request)}${integration.path}`,
                  copy: 'Copy URL',
                },
                ...(hasToken
                  ? [
                      {
                        id: 'verify-token',
                        label: 'Verify token, shown only once',
                        value: integration.verifyToken,
                        copy: 'Copy token',
                      },
                    ]
                  : []),
              ],
            },
          },
        };
      },
      switch: async ({ membership: { organization }, actor, transact }, form) => {
        const to = field(form, 'to');
        if (to !== 'on' && to !== 'off') throw new UserError('to must be on or off');
        const id = idField(form, 'id');
        await transact((tables) => setIntegrationEnabled(tables, actor, organization, id, to === 'on'));
        return { done: `integration-${to}`, name: (await integrationOf(organization, form)).name, id };
      },
      secrets: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const input = { secret: field(form, 'secret'), token: field(form, 'token') };
        await transact((tables) => changeSecrets(tables, actor, sealed, organization, id, input));
        return { done: 'integration-secrets', name: (await integrationOf(organization, form)).name, id };
      },
      remove: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const { name } = await integrationOf(organization, form);
        await transact((tables) => removeIntegration(tables, actor, organization, id));
        return { done: 'integration-removed', name };
      },
    },
  });
}
