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

/** The fields for the secrets of a channel, in its own words. */
const secretInputs = (channel: Channel, prefix: string, isRequired: boolean): Input[] => [
  {
    kind: 'secret',
    name: 'secret',
    label: `${prefix}${channel.secretLabel}`,
    required: isRequired,
    help: `${channel.secretHelp} It is stored encrypted and never shown.`,
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

/** The pages to add, switch on and off, and remove an organization's integrations, and to change their secrets. */
export function integrationPages(
  app: FastifyInstance,
  { secrets, database, settings }: WebhookServices,
): void {
  const sealed = sealing(secrets);
  /** The address for providers: `public_url`, else the address that the administrator's browser uses. */
  const origin = (request: FastifyRequest) =>
    withoutSlash(settings.current.public_url) || `${request.protocol}://${request.host}`;
  const integrationOf = async (organization: string, given: Form): Promise<IntegrationInfo> => {
    const id = idField(given, 'id');
    const found = (await listIntegrations(tablesOf(database), organization)).find((each) => each.id === id);
    if (found === undefined) throw new UserError('there is no such integration');
    return found;
  };
  const problemOf = ({ provider }: IntegrationInfo) =>
    provider === 'twilio' && settings.current.public_url === ''
      ? 'public_url is not set in config.yaml, so that no delivery can be verified'
      : null;
  const stateOf = (integration: IntegrationInfo) =>
    integration.enabled
      ? ({ text: 'on', state: 'good', below: problemOf(integration) } as const)
      : ({ text: 'off', state: 'bad', below: problemOf(integration) } as const);

  addHomeCheck(app, async ({ membership: { organization, slug } }) =>
    (await listIntegrations(tablesOf(database), organization)).flatMap((each) => {
      const problem = each.enabled ? problemOf(each) : 'it is off, and its address responds 404';
      return problem === null
        ? []
        : [
            {
              state: 'warn' as const,
              text: `${each.name} (${each.label}): ${problem}.`,
              link: {
                label: 'Show integration',
                name: `Show integration ${each.name}`,
                href: `/setup/o/${slug}/integrations/integration?id=${each.id}`,
              },
            },
          ];
    }),
  );

  section(app, database, {
    name: 'integrations',
    title: 'Integrations',
    done: {
      'integration-on': '{} is on.',
      'integration-off': '{} is off: its address responds 404, and waiting events are kept.',
      'integration-secrets': 'The new secrets of {} are stored, encrypted.',
      'integration-removed': '{} and its deliveries are removed.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const at = (page: string) => `/setup/o/${slug}/integrations/${page}`;
      const primary = { label: 'Add integration', href: at('add') };
      return {
        primary,
        ...listing(request, await listIntegrations(tablesOf(database), organization), {
          searchLabel: 'Search integrations',
          text: ({ name, label }) => `${name} ${label}`,
          columns: [
            {
              title: 'Name',
              cell: ({ id, name }) => ({ text: name, href: `${at('integration')}?id=${id}` }),
              by: ({ name }) => name,
            },
            { title: 'Provider', cell: ({ label }) => ({ text: label }), by: ({ label }) => label },
            { title: 'State', cell: stateOf, by: ({ enabled }) => String(enabled) },
          ],
          row: ({ id, name, enabled }) => ({
            id,
            links: [
              {
                label: 'Show address',
                name: `Show address of ${name}`,
                href: `${at('integration')}?id=${id}`,
              },
              {
                label: 'Change secrets',
                name: `Change secrets of ${name}`,
                href: `${at('secrets')}?id=${id}`,
              },
              { label: 'Remove', name: `Remove ${name}`, href: `${at('remove')}?id=${id}` },
            ],
            buttons: [
              {
                label: enabled ? 'Switch off' : 'Switch on',
                name: `Switch ${enabled ? 'off' : 'on'} ${name}`,
                action: at('switch'),
                fields: [
                  { name: 'id', value: id },
                  { name: 'to', value: enabled ? 'off' : 'on' },
                ],
              },
            ],
          }),
          empty: {
            text: 'An integration takes messages and leads from a provider, such as WhatsApp or Meta Lead Ads.',
            link: primary,
          },
        }),
      };
    },
    pages: {
      integration: async ({ membership: { organization, slug } }, { given, request }) => {
        const integration = await integrationOf(organization, given);
        const { id, name, label, provider, endpoint } = integration;
        return {
          kind: 'record',
          title: name,
          values: [
            { label: 'Provider', text: label },
            { label: 'State', ...stateOf(integration) },
            { label: 'Callback address', code: `${origin(request)}${endpointPath(provider, endpoint)}` },
          ],
          links: [
            { label: 'Change secrets', href: `/setup/o/${slug}/integrations/secrets?id=${id}` },
            { label: 'Show deliveries', href: `/setup/o/${slug}/deliveries` },
          ],
          danger: { label: 'Remove integration', href: `/setup/o/${slug}/integrations/remove?id=${id}` },
        };
      },
      add: async ({ membership: { slug } }, { given, back }) => {
        const path = `/setup/o/${slug}/integrations/add`;
        const provider = field(given, 'provider');
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
            groups: [{ title: 'Which provider?', links }],
          };
        }
        return {
          kind: 'form',
          title: `Add ${channel.label}`,
          action: path,
          hidden: [{ name: 'provider', value: provider }],
          inputs: [
            nameInput(field(given, 'name').slice(0, 200), 'Which number, page or bot it is.'),
            ...secretInputs(channel, '', true),
          ],
          submit: 'Add integration',
          cancel: back,
        };
      },
      secrets: async ({ membership: { organization, slug } }, { given, back }) => {
        const { id, name, provider } = await integrationOf(organization, given);
        const channel = channelOf(provider);
        if (channel === undefined) throw new UserError('there is no such provider');
        return {
          kind: 'form',
          title: `New secrets of ${name}`,
          intro: 'What is left empty stays as it is.',
          action: `/setup/o/${slug}/integrations/secrets`,
          hidden: [{ name: 'id', value: id }],
          inputs: secretInputs(channel, 'New ', false),
          submit: 'Change secrets',
          cancel: back,
        };
      },
      remove: async ({ membership: { organization, slug } }, { given, back }) => {
        const { id, name, label } = await integrationOf(organization, given);
        return {
          kind: 'confirm',
          title: `Remove ${name}?`,
          consequence: `Its address responds 404 at once, so ${label} cannot deliver any more, and all its deliveries are deleted. To pause it, switch it off instead.`,
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
        const given = {
          organization,
          provider: field(form, 'provider'),
          name: field(form, 'name'),
          secret: field(form, 'secret'),
          token: field(form, 'token'),
        };
        const made = await transact((tables) => addIntegration(tables, actor, sealed, given));
        const hasToken = channelOf(given.provider)?.handshake === true;
        return {
          shown: {
            marked: made.id,
            made: {
              title: `Paste this at the provider of ${given.name}`,
              text: hasToken
                ? 'The verify token is shown this once. The address can be read again.'
                : 'The address can be read again.',
              values: [
                {
                  id: 'callback',
                  label: 'Callback address',
                  value: `${origin(request)}${made.path}`,
                  copy: 'Copy address',
                },
                ...(hasToken
                  ? [
                      {
                        id: 'verify-token',
                        label: 'Verify token, shown this once',
                        value: made.verifyToken,
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
        if (to !== 'on' && to !== 'off') throw new UserError('choose on or off');
        const id = idField(form, 'id');
        await transact((tables) => setIntegrationEnabled(tables, actor, organization, id, to === 'on'));
        return { done: `integration-${to}`, name: (await integrationOf(organization, form)).name, id };
      },
      secrets: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const given = { secret: field(form, 'secret'), token: field(form, 'token') };
        await transact((tables) => changeSecrets(tables, actor, sealed, organization, id, given));
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
