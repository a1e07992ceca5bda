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
  type Made,
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
  on: 'on',
  off: 'off',
  gone: 'off: the receiver responded 410',
  failed: 'off: no event arrived for days',
};

/** The page to make, test, switch and remove event subscriptions, and the one of their deliveries. */
export function subscriptionPages(
  app: FastifyInstance,
  { config, database, resources, secrets, settings }: WebhookServices & { readonly config: AuditConfig },
): void {
  const sealed = sealing(secrets);
  const subscriptionOf = async (organization: string, given: Form): Promise<Subscription> => {
    const id = idField(given, 'id');
    const [found] = await listSubscriptions(tablesOf(database), organization, id);
    if (found === undefined) throw new UserError('there is no such subscription');
    return found;
  };
  const stateOf = ({ state, failingSince }: Subscription): DisplayValue => ({
    text: stateTexts[state],
    state: state === 'on' ? 'good' : 'bad',
    below: failingSince === null ? null : `no event has arrived since ${exactTime(failingSince)}`,
  });
  const made = (title: string, text: string, secret: string): Made => ({
    title,
    text,
    values: [{ id: 'secret', label: 'Signing secret', value: secret, copy: 'Copy secret' }],
  });
  section(app, database, {
    name: 'events',
    title: 'Events',
    done: {
      'subscription-on': '{} is on, and goes on where it was.',
      'subscription-off': '{} is off. Changes are kept, and sent when it is on again.',
      'subscription-test': 'A test event is sent to {}. Its delivery shows what the receiver responds.',
      'subscription-removed': '{} and its deliveries are removed.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const at = (page: string) => `/setup/o/${slug}/events/${page}`;
      const primary = { label: 'Add subscription', href: at('add') };
      return {
        primary,
        ...(!config.audit && {
          intro: 'This instance records no changes, so that there are no events (AUDIT=false).',
        }),
        ...listing(request, await listSubscriptions(tablesOf(database), organization), {
          searchLabel: 'Search subscriptions',
          text: ({ url, profile, resources: names }) => `${url} ${profile} ${names.join(' ')}`,
          columns: [
            { title: 'Address', cell: ({ url }) => ({ text: url }), by: ({ url }) => url },
            {
              title: 'Of',
              cell: ({ resources: names, actions, filter }) => ({
                text: `${actions.join(', ')} of ${names.join(', ')}`,
                below: filter === '' ? null : `where ${filter}`,
              }),
            },
            { title: 'As', cell: ({ profile }) => ({ text: profile }), by: ({ profile }) => profile },
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
              action: at(action),
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
                { label: 'New secret', name: `New secret for ${url}`, href: `${at('rotate')}?id=${id}` },
                { label: 'Remove', name: `Remove ${url}`, href: `${at('remove')}?id=${id}` },
              ],
              buttons: [
                ...(state === 'on' ? [button('Send test event', `Send test event to ${url}`, 'test')] : []),
                state === 'on'
                  ? button('Switch off', `Switch off ${url}`, 'switch', [{ name: 'to', value: 'off' }])
                  : button('Switch on', `Switch on ${url}`, 'switch', [{ name: 'to', value: 'on' }]),
              ],
            };
          },
          empty: { text: 'A subscription sends every change to your program, signed.', link: primary },
        }),
      };
    },
    pages: {
      add: async ({ membership: { organization, slug } }, { given, back }) => {
        const chosen = (name: string, all: readonly string[], isDefault: boolean) => {
          const sent = fields(given, name);
          return all.map((value) => ({
            value,
            label: value,
            selected: sent.length === 0 ? isDefault && given.url === undefined : sent.includes(value),
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
              label: 'Address that receives the events',
              required: true,
              maxLength: 2000,
              value: field(given, 'url').slice(0, 2000),
              focus: true,
              help: 'Begins with https://.',
            },
            {
              kind: 'checkboxes',
              name: 'resource',
              label: 'Of which resources',
              options: chosen(
                'resource',
                resources.map(({ name }) => name),
                false,
              ),
            },
            {
              kind: 'checkboxes',
              name: 'action',
              label: 'Which changes',
              options: chosen('action', eventActions, true),
            },
            {
              kind: 'line',
              name: 'filter',
              label: 'Only records with',
              maxLength: 2000,
              value: field(given, 'filter').slice(0, 2000),
              help: 'Parameters of a list, such as status=New. Empty: all.',
            },
            {
              ...profileChoice(
                await listProfiles(tablesOf(database), organization),
                field(given, 'profile'),
                'A record is sent as this profile may read it when it is sent.',
              ),
              label: 'What the events may show',
            },
          ],
          submit: 'Add subscription',
          cancel: back,
        };
      },
      rotate: async ({ membership: { organization, slug } }, { given, back }) => {
        const { id, url } = await subscriptionOf(organization, given);
        return {
          kind: 'confirm',
          title: `New secret for ${url}?`,
          consequence: `The secret before signs as well for ${overlapHours} hours, so that the receiver can change over.`,
          action: `/setup/o/${slug}/events/rotate`,
          hidden: [{ name: 'id', value: id }],
          submit: 'Make new secret',
          cancel: back,
          isSafe: true,
        };
      },
      remove: async ({ membership: { organization, slug } }, { given, back }) => {
        const { id, url } = await subscriptionOf(organization, given);
        return {
          kind: 'confirm',
          title: `Remove ${url}?`,
          consequence:
            'Nothing is sent to it any more, and its deliveries are deleted. To pause it, switch it off instead.',
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
        const problems: FieldIssue[] = [];
        const given = {
          url: field(form, 'url').trim(),
          resources: fields(form, 'resource'),
          actions: fields(form, 'action'),
          filter: field(form, 'filter').trim(),
        };
        const wish = readSubscriptionInput(
          given,
          true,
          resources,
          settings.current.events,
          problems,
        ) as SubscriptionInput;
        if (problems.length === 0) checkFilter(wish, resources, problems);
        if (problems.length > 0) throw new UserError(problems.map(({ message }) => message).join('; '));
        const profile = await chosenProfile(tablesOf(database), organization, form);
        const { end: place } = await feedEnd(database);
        const { id, secret } = await transact((tables) =>
          createSubscription(tables, actor, sealed, { ...wish, organization, profile, place }),
        );
        const text = 'Copy what signs its events now: it is shown this once.';
        return { shown: { marked: id, made: made(`${wish.url} is added`, text, secret) } };
      },
      switch: async ({ membership: { organization }, actor, transact }, form) => {
        const state = field(form, 'to');
        if (state !== 'on' && state !== 'off') throw new UserError('choose on or off');
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
        const text = `Copy it now: it is shown this once. The secret before signs as well for ${overlapHours} hours.`;
        return { shown: { marked: id, made: made('The new secret', text, secret) } };
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
      .map((each) => ({
        state: each.state === 'on' ? ('warn' as const) : ('bad' as const),
        text: `Events to ${each.url}: ${each.state === 'on' ? 'no event arrives at the moment' : stateTexts[each.state]}.`,
        link: {
          label: 'Show deliveries',
          name: `Show deliveries to ${each.url}`,
          href: `/setup/o/${slug}/event-deliveries?owner=${each.id}`,
        },
      })),
  );
  deliveryPages(app, database, {
    name: 'event-deliveries',
    title: 'Sent events',
    purpose: 'What was sent to your subscriptions is listed here, with what the receivers responded.',
    columns: { time: 'Changed', owner: 'To' },
    queue: deliveryQueue,
    owners: async (tables, organization) =>
      new Map((await listSubscriptions(tables, organization)).map(({ id, url }) => [id, url])),
  });
}
