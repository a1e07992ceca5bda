import type { FastifyInstance } from 'fastify';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { type FieldIssue, UserError } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { chosenProfile, listProfiles, profileChoice } from '../../plugins/access/profiles/index.ts';
import { sealing } from '../../plugins/access/secrets/index.ts';
import {
  addHomeCheck,
  type DisplayValue,
  exactTime,
  type Form,
  field,
  fields,
  idField,
  listing,
  type SecretNotice,
  section,
} from '../../plugins/admin-ui/shell/index.ts';
import { feedEnd } from '../../plugins/change-log/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { deliveryPages } from '../queue/index.ts';
import { deliveryQueue } from './deliveries.ts';
import { checkFilter, eventActions, readSubscriptionInput, type SubscriptionInput } from './input.ts';
import {
  changeSubscription,
  createSubscription,
  listSubscriptions,
  overlapHours,
  removeSubscription,
  rotateSecret,
  type Subscription,
  sendTest,
} from './subscriptions.ts';

const stateTexts: Readonly<Record<Subscription['state'], string>> = {
  on: 'Enabled',
  off: 'Disabled',
  gone: 'Disabled: the receiver responded with 410',
  failed: 'Disabled: no events delivered for days',
};

/** Adds the pages for managing event subscriptions and their deliveries. */
export function subscriptionPages(
  app: FastifyInstance,
  { config, database, resources, secrets, settings }: WebhookServices & { readonly config: AuditConfig },
): void {
  const sealed = sealing(secrets);
  const subscriptionOf = async (organization: string, values: Form): Promise<Subscription> => {
    const id = idField(values, 'id');
    const [subscription] = await listSubscriptions(tablesOf(database), organization, id);
    if (subscription === undefined) throw new UserError('this event subscription does not exist');
    return subscription;
  };
  const stateOf = ({ state, failingSince }: Subscription): DisplayValue => ({
    text: stateTexts[state],
    state: state === 'on' ? 'good' : 'bad',
    below: failingSince === null ? null : `no events delivered since ${exactTime(failingSince)}`,
  });
  const secretNotice = (title: string, text: string, secret: string): SecretNotice => ({
    title,
    text,
    values: [{ id: 'secret', label: 'Signing secret', value: secret, copy: 'Copy secret' }],
  });
  section(app, database, {
    name: 'events',
    title: 'Events',
    done: {
      'subscription-on': '{} enabled. It continues where it stopped.',
      'subscription-off': '{} disabled. Changes are kept and will be sent when it is enabled again.',
      'subscription-test': 'Test event for {} queued. See its delivery for the response.',
      'subscription-removed': '{} and its deliveries have been removed.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const pagePath = (page: string) => `/setup/o/${slug}/events/${page}`;
      const primary = { label: 'Add subscription', href: pagePath('add') };
      return {
        primary,
        ...(!config.audit && {
          intro: 'Events require the change log, which is disabled (AUDIT=false).',
        }),
        ...listing(request, await listSubscriptions(tablesOf(database), organization), {
          searchLabel: 'Search subscriptions',
          text: ({ url, profile, resources: names }) => `${url} ${profile} ${names.join(' ')}`,
          columns: [
            { title: 'URL', cell: ({ url }) => ({ text: url }), by: ({ url }) => url },
            {
              title: 'Changes',
              cell: ({ resources: names, actions, filter }) => ({
                text: `${actions.join(', ')} of ${names.join(', ')}`,
                below: filter === '' ? null : `where ${filter}`,
              }),
            },
            { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: ({ profile }) => profile },
            { title: 'State', cell: stateOf, by: ({ state }) => state },
          ],
          row: ({ id, url, state }) => {
            const button = (
              label: string,
              name: string,
              action: string,
              more: { name: string; value: string }[] = [],
            ) => ({
              label,
              name,
              action: pagePath(action),
              fields: [{ name: 'id', value: id }, ...more],
            });
            return {
              id,
              links: [
                {
                  label: 'Deliveries',
                  name: `Deliveries to ${url}`,
                  href: `/setup/o/${slug}/event-deliveries?owner=${id}`,
                },
                {
                  label: 'New secret',
                  name: `New secret for ${url}`,
                  href: `${pagePath('rotate')}?id=${id}`,
                },
                { label: 'Remove', name: `Remove ${url}`, href: `${pagePath('remove')}?id=${id}` },
              ],
              buttons: [
                ...(state === 'on' ? [button('Send test event', `Send test event to ${url}`, 'test')] : []),
                state === 'on'
                  ? button('Disable', `Disable ${url}`, 'switch', [{ name: 'to', value: 'off' }])
                  : button('Enable', `Enable ${url}`, 'switch', [{ name: 'to', value: 'on' }]),
              ],
            };
          },
          empty: { text: 'Subscriptions send changes to your application, with a signature.', link: primary },
        }),
      };
    },
    pages: {
      add: async ({ membership: { organization, slug } }, { form, back }) => {
        const optionsOf = (name: string, allValues: readonly string[], isDefault: boolean) => {
          const sentValues = fields(form, name);
          return allValues.map((value) => ({
            value,
            label: value,
            selected:
              sentValues.length === 0 ? isDefault && form.url === undefined : sentValues.includes(value),
          }));
        };
        return {
          kind: 'form',
          title: 'Add a subscription',
          action: `/setup/o/${slug}/events/add`,
          inputs: [
            {
              kind: 'line',
              name: 'url',
              label: 'Receiver URL',
              required: true,
              maxLength: 2000,
              value: field(form, 'url').slice(0, 2000),
              focus: true,
              help: 'Starts with https://.',
            },
            {
              kind: 'checkboxes',
              name: 'resource',
              label: 'Resources',
              options: optionsOf(
                'resource',
                resources.map(({ name }) => name),
                false,
              ),
            },
            {
              kind: 'checkboxes',
              name: 'action',
              label: 'Changes',
              options: optionsOf('action', eventActions, true),
            },
            {
              kind: 'line',
              name: 'filter',
              label: 'Filter',
              maxLength: 2000,
              value: field(form, 'filter').slice(0, 2000),
              help: 'List parameters, for example status=New. Leave empty for all records.',
            },
            {
              ...profileChoice(
                await listProfiles(tablesOf(database), organization),
                field(form, 'profile'),
                'Events contain what this profile can read when they are sent.',
              ),
              label: 'Profile for events',
            },
          ],
          submit: 'Add subscription',
          cancel: back,
        };
      },
      rotate: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, url } = await subscriptionOf(organization, form);
        return {
          kind: 'confirm',
          title: `New secret for ${url}?`,
          consequence: `Events will also be signed with the previous secret for ${overlapHours} hours, so that the receiver can switch over.`,
          action: `/setup/o/${slug}/events/rotate`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Create new secret',
          cancel: back,
          isSafe: true,
        };
      },
      remove: async ({ membership: { organization, slug } }, { form, back }) => {
        const { id, url } = await subscriptionOf(organization, form);
        return {
          kind: 'confirm',
          title: `Remove ${url}?`,
          consequence:
            'It will no longer receive events, and its deliveries will be deleted. To pause it, disable it instead.',
          action: `/setup/o/${slug}/events/remove`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Remove subscription',
          cancel: back,
        };
      },
    },
    once: ['add', 'rotate', 'test'],
    actions: {
      add: async ({ membership: { organization }, actor, transact }, form) => {
        const issues: FieldIssue[] = [];
        const values = {
          url: field(form, 'url').trim(),
          resources: fields(form, 'resource'),
          actions: fields(form, 'action'),
          filter: field(form, 'filter').trim(),
        };
        const input = readSubscriptionInput(
          values,
          true,
          resources,
          settings.current.events,
          issues,
        ) as SubscriptionInput;
        if (issues.length === 0) checkFilter(input, resources, issues);
        if (issues.length > 0) throw new UserError(issues.map(({ message }) => message).join('; '));
        const profile = await chosenProfile(tablesOf(database), organization, form);
        const { end: position } = await feedEnd(database);
        const { id, secret } = await transact((tables) =>
          createSubscription(tables, actor, sealed, { ...input, organization, profile, position }),
        );
        const text = 'Copy the signing secret now. It is shown only once.';
        return { view: { marked: id, made: secretNotice(`${input.url} added`, text, secret) } };
      },
      switch: async ({ membership: { organization }, actor, transact }, form) => {
        const state = field(form, 'to');
        if (state !== 'on' && state !== 'off') throw new UserError('to must be on or off');
        const id = idField(form, 'id');
        await transact((tables) => changeSubscription(tables, actor, organization, id, { state }));
        return { done: `subscription-${state}`, name: (await subscriptionOf(organization, form)).url, id };
      },
      test: async ({ membership: { organization }, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => sendTest(tables, organization, id));
        return { done: 'subscription-test', name: (await subscriptionOf(organization, form)).url, id };
      },
      rotate: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const secret = await transact((tables) => rotateSecret(tables, actor, sealed, organization, id));
        const text = `Copy it now. It is shown only once. Events are also signed with the previous secret for ${overlapHours} hours.`;
        return { view: { marked: id, made: secretNotice('New signing secret', text, secret) } };
      },
      remove: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const { url } = await subscriptionOf(organization, form);
        await transact((tables) => removeSubscription(tables, actor, organization, id));
        return { done: 'subscription-removed', name: url };
      },
    },
  });
  addHomeCheck(app, async ({ membership: { organization, slug } }) =>
    (await listSubscriptions(tablesOf(database), organization))
      .filter(({ state, failingSince }) => state === 'gone' || state === 'failed' || failingSince !== null)
      .map((subscription) => ({
        state: subscription.state === 'on' ? ('warn' as const) : ('bad' as const),
        text: `Events to ${subscription.url}: ${subscription.state === 'on' ? 'deliveries are failing' : stateTexts[subscription.state]}.`,
        link: {
          label: 'Show deliveries',
          name: `Show deliveries to ${subscription.url}`,
          href: `/setup/o/${slug}/event-deliveries?owner=${subscription.id}`,
        },
      })),
  );
  deliveryPages(app, database, {
    name: 'event-deliveries',
    title: 'Sent events',
    purpose: 'Events sent to your subscriptions appear here, with the responses of the receivers.',
    columns: { time: 'Changed', owner: 'To' },
    queue: deliveryQueue,
    owners: async (tables, organization) =>
      new Map((await listSubscriptions(tables, organization)).map(({ id, url }) => [id, url])),
  });
}
