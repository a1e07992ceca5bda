import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { type FieldIssue, UserError } from '../../engine/errors.ts';
import { parseDocument } from '../../engine/fields/index.ts';
import { organizationCustomFields } from '../../engine/records/index.ts';
import { listRows, type Tables, tablesOf } from '../../engine/tables/index.ts';
import { profileGrants } from '../../plugins/access/identity/index.ts';
import { chosenProfile, type Grantor, profileChoice } from '../../plugins/access/profiles/index.ts';
import { sealing } from '../../plugins/access/secrets/index.ts';
import {
  addHomeCheck,
  addObjects,
  type DisplayValue,
  defineObject,
  exactTime,
  type Form,
  field,
  fields,
  rowsPerPage,
  type TextIn,
} from '../../plugins/admin-ui/shell/index.ts';
import { feedEnd } from '../../plugins/change-log/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { addDeliveries } from '../queue/index.ts';
import { deliveryQueue } from './deliveries.ts';
import {
  batchInput,
  checkSelection,
  type EventFormat,
  eventActions,
  type FilterMode,
  maxBatchEvents,
  maxBatchSeconds,
  readSubscriptionInput,
  type SubscriptionInput,
} from './input.ts';
import {
  changeSubscription,
  createSubscription,
  missingSubscription,
  overlapHours,
  removeSubscription,
  rotateSecret,
  type Subscription,
  sendTest,
  subscriptionRows,
} from './subscriptions.ts';
import { subscriptionsTexts } from './texts/index.ts';

interface SubscriptionPageServices extends WebhookServices {
  readonly config: AuditConfig;
}

const stateTexts: Readonly<Record<Subscription['state'], TextIn>> = {
  on: subscriptionsTexts.later('enabled'),
  off: subscriptionsTexts.later('disabled'),
  gone: subscriptionsTexts.later('receiverGone'),
  failed: subscriptionsTexts.later('noDelivery'),
};

const formatLabels: Readonly<Record<EventFormat, string>> = {
  standard: 'Standard',
  cloudevents: 'CloudEvents 1.0',
};

const modeLabels: Readonly<Record<FilterMode, string>> = {
  matches: 'match the filter when the event is sent',
  enters: 'start to match the filter',
  leaves: 'stop matching the filter',
};

/** Returns the options of a choice, with the submitted option selected. */
const choicesOf = (form: Form, name: string, labels: Readonly<Record<string, string>>) =>
  Object.entries(labels).map(([value, label]) => ({ value, label, selected: value === field(form, name) }));

const stateOf = ({ state, failingSince }: Subscription): DisplayValue => ({
  text: state === 'on' && failingSince !== null ? 'Failing' : stateTexts[state]('en'),
  state: state === 'on' && failingSince === null ? 'good' : 'bad',
  below: failingSince === null ? null : `no events delivered since ${exactTime(failingSince)}`,
});

/** Shows a signing secret only once. */
const showOnce = (id: string, title: string, text: string, secret: string) => ({
  view: {
    marked: id,
    made: {
      title,
      text,
      values: [{ id: 'secret', label: 'Signing secret', value: secret, copy: 'Copy secret' }],
    },
  },
});

/** Returns checkbox options, with the submitted options or, initially, the defaults selected. */
function optionsOf(form: Form, name: string, values: readonly string[], isDefault: boolean) {
  const sentValues = fields(form, name);
  return values.map((value) => ({
    value,
    label: value,
    selected: sentValues.length === 0 ? isDefault && form.url === undefined : sentValues.includes(value),
  }));
}

/** Returns the subscription in a form, and its profile. @throws UserError with every issue */
async function inputOf(
  form: Form,
  context: Grantor & { readonly services: SubscriptionPageServices; readonly tables: Tables },
): Promise<SubscriptionInput & { readonly profile: string }> {
  const { organization, tables, services } = context;
  const { resources, settings, database } = services;
  const issues: FieldIssue[] = [];
  const rejectInvalid = () => {
    if (issues.length > 0) throw new UserError(issues.map(({ message }) => message).join('; '));
  };
  const transitions = field(form, 'transitions').trim();
  const values = {
    url: field(form, 'url').trim(),
    resources: fields(form, 'resource'),
    actions: fields(form, 'action'),
    filter: field(form, 'filter').trim(),
    filter_when: field(form, 'filter_when') || undefined,
    transitions: transitions === '' ? undefined : parseDocument(transitions),
    format: field(form, 'format') || undefined,
    batch: batchInput(field(form, 'batch_events').trim(), field(form, 'batch_wait').trim()),
  };
  const policy = settings.current.events;
  const input = readSubscriptionInput(values, true, resources, policy, issues) as SubscriptionInput;
  rejectInvalid();
  const profile = await chosenProfile(tables, context, form);
  const customFields = await organizationCustomFields(database, resources, organization);
  checkSelection(input, resources, await profileGrants(tables, organization, profile), customFields, issues);
  rejectInvalid();
  return { ...input, profile };
}

/** Event subscriptions. */
const subscriptions = defineObject<Subscription, SubscriptionPageServices>({
  name: 'events',
  title: subscriptionsTexts.later('events'),
  group: 'Integrations',
  icon: 'webhook',
  plural: 'subscriptions',
  source: subscriptionRows,
  missing: missingSubscription,
  nameOf: ({ url }) => url,
  intro: ({ services }) =>
    services.config.audit ? undefined : 'Events require the change log, which is disabled (AUDIT=false).',
  columns: [
    { title: 'URL', cell: ({ url }) => ({ text: url }), by: 's.url' },
    {
      title: 'Changes',
      cell: ({ resources, actions, filter, filterWhen, transitions, batch }) => ({
        text: `${resources.join(', ')}: ${actions.join(', ')}`,
        below:
          [
            ...(filter === '' ? [] : [`${filterWhen === 'matches' ? 'where' : filterWhen} ${filter}`]),
            ...Object.keys(transitions).map((name) => `transitions of ${name}`),
            ...(batch === null ? [] : [`batches of up to ${batch.maxEvents}`]),
          ].join('; ') || null,
      }),
    },
    { title: 'Profile', cell: ({ profile }) => ({ text: profile }), by: 'lower(p.name)' },
    { title: 'State', cell: stateOf, by: 's.state' },
  ],
  empty: 'Subscriptions send signed events to your application when records change.',
  menu: ({ id, url }, { slug }) => {
    const href = `/setup/o/${slug}/event-deliveries?owner=${id}`;
    return { links: [{ label: 'Deliveries', name: `Deliveries to ${url}`, href }] };
  },
  actions: {
    add: {
      label: 'Add subscription',
      isOnce: true,
      page: async (context, form) => {
        const resources = context.services.resources.map(({ name }) => name);
        const profileHelp = 'Events contain what this profile can read when they are sent.';
        return {
          kind: 'form',
          title: 'Add a subscription',
          inputs: [
            {
              kind: 'line',
              name: 'url',
              label: 'Receiver URL',
              required: true,
              maxLength: 2000,
              value: field(form, 'url').slice(0, 2000),
              focus: true,
              help: 'Must start with https://.',
            },
            {
              kind: 'checkboxes',
              name: 'resource',
              label: 'Resources',
              options: optionsOf(form, 'resource', resources, false),
            },
            {
              kind: 'checkboxes',
              name: 'action',
              label: 'Changes',
              options: optionsOf(form, 'action', eventActions, true),
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
              kind: 'choice',
              name: 'filter_when',
              label: 'Send changes to records that',
              options: choicesOf(form, 'filter_when', modeLabels),
            },
            {
              kind: 'line',
              name: 'transitions',
              label: 'Transitions',
              maxLength: 2000,
              value: field(form, 'transitions').slice(0, 2000),
              help: 'Only updates that change these fields, as JSON, for example {"status":{"from":"New","to":"Qualified"}}. Leave empty for all changes.',
            },
            {
              kind: 'choice',
              name: 'format',
              label: 'Format',
              options: choicesOf(form, 'format', formatLabels),
            },
            {
              kind: 'line',
              name: 'batch_events',
              label: 'Events per request',
              maxLength: 3,
              value: field(form, 'batch_events').slice(0, 3),
              help: `Sends up to this many events in one request (1 to ${maxBatchEvents}). Leave empty for one request per event.`,
            },
            {
              kind: 'line',
              name: 'batch_wait',
              label: 'Maximum wait in seconds',
              maxLength: 3,
              value: field(form, 'batch_wait').slice(0, 3),
              help: `How long an event waits for others if several are sent in one request (1 to ${maxBatchSeconds}). Default: 5.`,
            },
            {
              ...(await profileChoice(context, field(form, 'profile'), profileHelp)),
              label: 'Profile for events',
            },
          ],
          submit: 'Add subscription',
        };
      },
      run: async (context, form) => {
        const { organization, actor, transact, services } = context;
        const input = await inputOf(form, context);
        const { end: position } = await feedEnd(services.database);
        const sealed = sealing(services.secrets);
        const { id, secret } = await transact((transactionTables) =>
          createSubscription(transactionTables, actor, sealed, { ...input, organization, position }),
        );
        const text = 'Copy the signing secret now. It is shown only once.';
        return showOnce(id, `${input.url} added`, text, secret);
      },
    },
  },
  rowActions: {
    rotate: {
      label: 'New secret',
      accessibleName: (name) => `New secret for ${name}`,
      isOnce: true,
      page: (_context, _form, { url }) => ({
        kind: 'confirm',
        title: `New secret for ${url}?`,
        consequence: `Events will also be signed with the previous secret for ${overlapHours} hours, so that the receiver can switch over.`,
        submit: 'Create new secret',
        isSafe: true,
      }),
      run: async ({ organization, actor, transact, services }, _form, { id }) => {
        const sealed = sealing(services.secrets);
        const secret = await transact((tables) => rotateSecret(tables, actor, sealed, organization, id));
        const text = `Copy the secret now. It is shown only once. Events are also signed with the previous secret for ${overlapHours} hours.`;
        return showOnce(id, 'New signing secret', text, secret);
      },
    },
    remove: {
      label: 'Remove',
      page: (_context, _form, { url }) => ({
        kind: 'confirm',
        title: `Remove ${url}?`,
        consequence:
          'It will no longer receive events, and its deliveries will be deleted. To pause it, disable it instead.',
        submit: 'Remove subscription',
      }),
      done: { 'subscription-removed': '{} and its deliveries have been removed.' },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => removeSubscription(tables, actor, organization, id)),
    },
    test: {
      label: 'Send test event',
      accessibleName: (name) => `Send test event to ${name}`,
      isOffered: ({ state }) => state === 'on',
      isOnce: true,
      done: { 'subscription-test': 'Test event for {} queued. See its delivery for the response.' },
      run: async ({ organization, transact }, _form, { id }) => {
        await transact((tables) => sendTest(tables, organization, id));
      },
    },
    switch: {
      label: (_language, { state }) => (state === 'on' ? 'Disable' : 'Enable'),
      fields: ({ state }) => [{ name: 'to', value: state === 'on' ? 'off' : 'on' }],
      done: {
        'subscription-on': '{} enabled. It continues where it stopped.',
        'subscription-off': '{} disabled. Changes are kept and will be sent when it is enabled again.',
      },
      run: async ({ organization, actor, transact }, form, { id, url }) => {
        const state = field(form, 'to');
        if (state !== 'on' && state !== 'off') throw new UserError('to must be on or off');
        await transact((tables) => changeSubscription(tables, actor, organization, id, { state }));
        return { done: `subscription-${state}`, name: url, id };
      },
    },
  },
});

/** Adds the pages for event subscriptions and deliveries, and the check for failing subscriptions. */
export function subscriptionPages(app: FastifyInstance, services: SubscriptionPageServices): void {
  addObjects(app, services, [subscriptions]);
  addHomeCheck(app, async ({ membership: { organization, slug } }, language) => {
    const t = subscriptionsTexts(language);
    const where = [sql`s.state in ('gone', 'failed') or s.failing_since is not null`];
    const page = { where, limit: rowsPerPage };
    const failing = await listRows(tablesOf(services.database), subscriptionRows, organization, page);
    return failing.map(({ id, url, state }) => ({
      state: state === 'on' ? ('warn' as const) : ('bad' as const),
      text: t('eventsTo', {
        url,
        problem: state === 'on' ? t('deliveriesFailing') : stateTexts[state](language),
      }),
      link: {
        label: t('showDeliveries'),
        name: t('showDeliveriesTo', { url }),
        href: `/setup/o/${slug}/event-deliveries?owner=${id}`,
      },
    }));
  });
  addDeliveries(app, services, {
    name: 'event-deliveries',
    title: subscriptionsTexts.later('sentEvents'),
    icon: 'send',
    purpose: 'Events sent to your subscriptions appear here, with the receivers’ responses.',
    columns: { time: 'Changed', owner: 'To' },
    queue: deliveryQueue,
  });
}
