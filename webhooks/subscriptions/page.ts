import type { FastifyInstance } from 'fastify';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { type FieldProblem, UserError } from '../../engine/errors.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { feedEnd } from '../../plugins/ledger/index.ts';
import { listProfiles } from '../../plugins/profiles/index.ts';
import { field, fields, idField, section, viewsIn } from '../../plugins/screens/index.ts';
import { sealing } from '../../plugins/secrets/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { deliveryPages } from '../queue/index.ts';
import { deliveryQueue } from './deliveries.ts';
import { checkFilter, eventActions, readWish, type Wish } from './input.ts';
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
  section(app, database, {
    name: 'events',
    title: 'Events',
    view: viewsIn(import.meta.dirname)('subscriptions'),
    done: {
      'subscription-on': 'The subscription is on, and goes on where it was.',
      'subscription-off': 'The subscription is off. Changes are kept, and sent when it is on again.',
      'subscription-test': 'A test event is sent. Its delivery shows what the receiver responds.',
      'subscription-removed': 'The subscription and its deliveries are removed.',
    },
    load: async ({ membership: { organization } }) => {
      const tables = tablesOf(database);
      const [subscriptions, profiles] = await Promise.all([
        listSubscriptions(tables, organization),
        listProfiles(tables, organization),
      ]);
      return {
        isRecorded: config.audit,
        profiles,
        resources: resources.map(({ name }) => name),
        actions: eventActions,
        subscriptions: subscriptions.map((each) => ({
          ...each,
          isOn: each.state === 'on',
          stateText: stateTexts[each.state],
          wanted: each.resources.join(', '),
          doing: each.actions.join(', '),
        })),
      };
    },
    once: ['add', 'rotate', 'test'],
    actions: {
      add: async ({ membership: { organization }, actor, transact }, form) => {
        const problems: FieldProblem[] = [];
        const given = {
          url: field(form, 'url').trim(),
          resources: fields(form, 'resource'),
          actions: fields(form, 'action'),
          filter: field(form, 'filter').trim(),
        };
        const wish = readWish(given, true, resources, settings.current.events, problems) as Wish;
        if (problems.length === 0) checkFilter(wish, resources, problems);
        if (problems.length > 0) throw new UserError(problems.map(({ message }) => message).join('; '));
        const profile = idField(form, 'profile');
        const known = await listProfiles(tablesOf(database), organization);
        if (!known.some(({ id }) => id === profile)) throw new UserError('there is no such profile');
        const { end: place } = await feedEnd(database);
        const { secret } = await transact((tables) =>
          createSubscription(tables, actor, sealed, { ...wish, organization, profile, place }),
        );
        return { shown: { secret } };
      },
      switch: async ({ membership: { organization }, actor, transact }, form) => {
        const state = field(form, 'to');
        if (state !== 'on' && state !== 'off') throw new UserError('choose on or off');
        const id = idField(form, 'id');
        await transact((tables) => changeSubscription(tables, actor, organization, id, { state }));
        return { done: `subscription-${state}` };
      },
      test: async ({ membership: { organization }, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => sendTest(tables, organization, id));
        return { done: 'subscription-test' };
      },
      rotate: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        const secret = await transact((tables) => rotateSecret(tables, actor, sealed, organization, id));
        return { shown: { secret, overlapHours } };
      },
      remove: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => removeSubscription(tables, actor, organization, id));
        return { done: 'subscription-removed' };
      },
    },
  });
  deliveryPages(app, database, {
    name: 'event-deliveries',
    title: 'Sent events',
    columns: { time: 'Changed', owner: 'To' },
    queue: deliveryQueue,
    owners: async (tables, organization) =>
      new Map((await listSubscriptions(tables, organization)).map(({ id, url }) => [id, url])),
  });
}
