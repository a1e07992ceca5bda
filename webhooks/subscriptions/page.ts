import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { resourceLabel } from '../../engine/definition/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import type { FieldIssue } from '../../engine/errors.ts';
import { parseDocument } from '../../engine/fields/index.ts';
import { organizationCustomFields } from '../../engine/records/index.ts';
import { listRows, type Tables, tablesOf } from '../../engine/tables/index.ts';
import { profileGrants } from '../../plugins/access/identity/index.ts';
import { chosenProfile, type Grantor, profileChoice } from '../../plugins/access/profiles/index.ts';
import { sealing } from '../../plugins/access/secrets/index.ts';
import {
  addHomeCheck,
  addObjects,
  addTimelineSource,
  type DisplayValue,
  defineObject,
  exactTime,
  type Form,
  field,
  fields,
  joinTexts,
  type Language,
  objectList,
  ownWords,
  parametersOf,
  returnQuery,
  rowsPerPage,
  type Text,
  type TextIn,
  TranslatedError,
} from '../../plugins/admin-ui/shell/index.ts';
import { feedEnd } from '../../plugins/change-log/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { addDeliveriesToHome, attemptsIn, type Deliveries, deliveriesOf, reasonFor } from '../queue/index.ts';
import { deliveryQueue } from './deliveries.ts';
import { exchangePage } from './exchange.ts';
import {
  batchInput,
  checkSelection,
  type EventAction,
  type EventFormat,
  eventActions,
  type FilterMode,
  maxBatchEvents,
  maxBatchSeconds,
  readSubscriptionInput,
  type SubscriptionInput,
} from './input.ts';
import { deliveryReasons } from './reasons.ts';
import {
  changeSubscription,
  createSubscription,
  type DisplayedSubscription,
  displayedSubscriptions,
  missingSubscription,
  overlapHours,
  removeSubscription,
  rotateSecret,
  type Subscription,
  sendTest,
  subscriptionRows,
} from './subscriptions.ts';
import { subscriptionsTexts } from './texts/index.ts';
import { eventsOfRecords } from './timeline.ts';
import { deliveryTitleIn } from './titles.ts';

interface SubscriptionPageServices extends WebhookServices {
  readonly config: AuditConfig;
}

const { later } = subscriptionsTexts;

/** Name of the list of deliveries in URLs. */
const deliveriesName = 'event-deliveries';

const stateTexts: Readonly<Record<Subscription['state'], TextIn>> = {
  on: later('enabled'),
  off: later('disabled'),
  gone: later('receiverGone'),
  failed: later('noDelivery'),
};

const formatLabels: Readonly<Record<EventFormat, TextIn>> = {
  standard: later('standard'),
  cloudevents: later('cloudevents'),
};

const modeLabels: Readonly<Record<FilterMode, TextIn>> = {
  matches: later('matches'),
  enters: later('enters'),
  leaves: later('leaves'),
};

/** Returns the options of a choice, with the submitted option selected. */
const choicesOf = (form: Form, name: string, labels: Readonly<Record<string, TextIn>>, language: Language) =>
  Object.entries(labels).map(([value, label]) => ({
    ...{ value, label: label(language), selected: value === field(form, name) },
  }));

function stateOf(
  { state, failingSince, pausedUntil, deliveredAt, error, latest }: DisplayedSubscription,
  { language }: { readonly language: Language },
): DisplayValue {
  const t = subscriptionsTexts(language);
  const isOn = state === 'on';
  const failure = { status: 'dead', error: error ?? '', latest: attemptsIn(latest ?? '')[0] };
  const reason = failingSince === null ? '' : reasonFor(deliveryReasons, failure, language);
  const details = [
    ...(failingSince === null ? [] : [t('failingSince', { time: exactTime(failingSince) })]),
    ...(reason === '' ? [] : [reason]),
    ...(isOn && pausedUntil !== null ? [t('pausedUntil', { time: exactTime(pausedUntil) })] : []),
    ...(deliveredAt === null ? [] : [t('deliveredAt', { time: exactTime(deliveredAt) })]),
  ];
  return {
    text: isOn && failingSince !== null ? t('failing') : stateTexts[state](language),
    state: isOn && failingSince === null ? 'good' : 'bad',
    below: details.join(' · ') || null,
    title: details.join(' · '),
  };
}

/** Labels of the changes that a subscription can send. */
const actionLabels: Readonly<Record<EventAction, TextIn>> = {
  create: later('whenCreated'),
  update: later('whenUpdated'),
  delete: later('whenDeleted'),
};

/** Returns the label of a resource, or its name if the instance no longer has it. */
const labelOfResource = (
  { resources }: Pick<SubscriptionPageServices, 'resources'>,
  name: string,
): string => {
  const resource = resources.find((each) => each.name === name);
  return resource === undefined ? name : resourceLabel(resource.definition);
};

/** Returns which changes a subscription sends. */
function changesOf(
  { resources, actions, filter, filterWhen, transitions, batch }: Subscription,
  {
    services,
    language,
  }: { readonly services: Pick<SubscriptionPageServices, 'resources'>; readonly language: Language },
): DisplayValue {
  const t = subscriptionsTexts(language);
  const details = [
    ...(filter === '' ? [] : [filterTexts[filterWhen](t, filter)]),
    ...Object.keys(transitions).map((name) => t('transitionsOf', { name })),
    ...(batch === null ? [] : [t('batchesUpTo', { max: String(batch.maxEvents) })]),
  ];
  const names = resources.map((name) => labelOfResource(services, name));
  const changes = eventActions.filter((action) => actions.includes(action));
  return {
    text: `${names.join(', ')}: ${changes.map((action) => actionLabels[action](language)).join(', ')}`,
    below: details.join('; ') || null,
  };
}

/** Shows a signing secret only once. */
function showOnce(
  { language }: { readonly language: Language },
  {
    id,
    title,
    text,
    secret,
  }: { readonly id: string; readonly title: Text; readonly text: Text; readonly secret: string },
) {
  const t = subscriptionsTexts(language);
  const values = [{ id: 'secret', label: t('signingSecret'), value: secret, copy: t('copySecret') }];
  return { view: { marked: id, made: { title, text, values } } };
}

/** Returns checkbox options, with the submitted options or, initially, the defaults selected. */
function optionsOf(
  form: Form,
  name: string,
  options: readonly { readonly value: string; readonly label: string }[],
  isDefault: boolean,
) {
  const sentValues = fields(form, name);
  return options.map(({ value, label }) => ({
    ...{ value, label },
    selected: sentValues.length === 0 ? isDefault && form.url === undefined : sentValues.includes(value),
  }));
}

/** The texts about invalid inputs of the form, by the name of the property in the API. */
const issueTexts: Readonly<Record<string, TextIn>> = {
  url: later('invalidUrl'),
  resources: later('chooseResources'),
  actions: later('chooseChanges'),
  filter: later('invalidFilter'),
  filter_when: later('invalidMode'),
  transitions: later('invalidTransitions'),
  format: later('invalidFormat'),
  batch: later('invalidBatch', {
    maxEvents: String(maxBatchEvents),
    maxSeconds: String(maxBatchSeconds),
  }),
};

/** Returns the error for an invalid form. In English, it contains the messages of the API. */
const invalidInput = (issues: readonly FieldIssue[]): TranslatedError =>
  new TranslatedError((language) =>
    language === 'en'
      ? ownWords(issues.map(({ message }) => message).join('; '))
      : joinTexts(
          [...new Set(issues.map((issue) => issue.field))].map(
            (name) => issueTexts[name]?.(language) ?? ownWords(name),
          ),
        ),
  );

/** Returns the subscription in a form, and its profile. @throws UserError with every issue */
async function inputOf(
  form: Form,
  context: Grantor & { readonly services: SubscriptionPageServices; readonly tables: Tables },
): Promise<SubscriptionInput & { readonly profile: string }> {
  const { organization, tables, services } = context;
  const { resources, settings, database } = services;
  const issues: FieldIssue[] = [];
  const rejectInvalid = () => {
    if (issues.length > 0) throw invalidInput(issues);
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

/** Describe a subscription's filter in the list, by mode. */
const filterTexts: Readonly<
  Record<FilterMode, (t: ReturnType<typeof subscriptionsTexts>, filter: string) => Text>
> = {
  matches: (t, filter) => t('where', { filter }),
  enters: (t, filter) => t('entersFilter', { filter }),
  leaves: (t, filter) => t('leavesFilter', { filter }),
};

const transitionsExample = '{"status":{"from":"New","to":"Qualified"}}';

/** Path of a subscription's page below the organization's setup. */
const subscriptionPath = (id: string): string => `events/subscription?id=${id}`;

/** Returns how deliveries are shown. */
const sentEvents = ({ resources }: SubscriptionPageServices): Deliveries => ({
  name: deliveriesName,
  title: later('sentEvents'),
  tab: later('deliveries'),
  icon: 'send',
  section: 'events',
  purpose: later('deliveriesPurpose'),
  columns: { time: later('changed'), owner: later('to') },
  queue: deliveryQueue,
  titleOf: (subject, language) => deliveryTitleIn(resources, subject, language),
  ownerPath: subscriptionPath,
  page: exchangePage(resources),
});

/** Event subscriptions. */
const subscriptions = defineObject<DisplayedSubscription, SubscriptionPageServices>({
  name: 'events',
  title: later('webhooks'),
  tab: later('subscriptions'),
  group: 'Integrations',
  icon: 'webhook',
  plural: later('rows'),
  source: displayedSubscriptions,
  missing: missingSubscription,
  nameOf: ({ url }) => url,
  intro: ({ services, language }) => (services.config.audit ? undefined : later('noChangeLog')(language)),
  columns: [
    {
      title: later('url'),
      cell: ({ id, url }, { urlOf }) => ({ text: url, href: `${urlOf('subscription')}?id=${id}` }),
      by: 's.url',
    },
    { title: later('changes'), cell: changesOf },
    { title: later('state'), cell: stateOf, by: 's.state' },
  ],
  empty: later('none'),
  menu: ({ id, url }, { urlOf, language }) => {
    const t = subscriptionsTexts(language);
    const href = `${urlOf('subscription')}?id=${id}`;
    return { links: [{ label: t('deliveries'), name: t('deliveriesTo', { url }), href }] };
  },
  pages: {
    subscription: async (context, subscription) => {
      const { language, urlOf, services } = context;
      const { id, url, profile, format, createdAt } = subscription;
      const t = subscriptionsTexts(language);
      const deliveries = deliveriesOf(sentEvents(services), id);
      const listUrlOf = (page?: string) => urlOf(page ?? 'subscription');
      return {
        kind: 'record',
        title: url,
        values: [
          { label: t('state'), ...stateOf(subscription, context) },
          { label: t('changes'), ...changesOf(subscription, context) },
          { label: t('profile'), text: profile },
          { label: t('format'), text: formatLabels[format](language) },
          { label: t('created'), time: createdAt },
        ],
        links: [{ label: t('newSecret'), href: `${urlOf('rotate')}?id=${id}` }],
        danger: { label: t('removeSubscription'), href: `${urlOf('remove')}?id=${id}` },
        list: {
          ...(await objectList(deliveries, { ...context, urlOf: listUrlOf })),
          title: t('deliveries'),
        },
      };
    },
  },
  actions: {
    add: {
      label: later('add'),
      isOnce: true,
      page: async (context, form) => {
        const { services, language } = context;
        const t = subscriptionsTexts(language);
        return {
          kind: 'form',
          title: t('addASubscription'),
          inputs: [
            {
              kind: 'line',
              name: 'url',
              label: t('receiverUrl'),
              required: true,
              maxLength: 2000,
              value: field(form, 'url').slice(0, 2000),
              focus: true,
              help: t('urlHelp'),
            },
            {
              kind: 'checkboxes',
              name: 'resource',
              label: t('resources'),
              options: optionsOf(
                form,
                'resource',
                services.resources.map(({ name, definition }) => ({
                  value: name,
                  label: resourceLabel(definition),
                })),
                false,
              ),
            },
            {
              kind: 'checkboxes',
              name: 'action',
              label: t('changes'),
              options: optionsOf(
                form,
                'action',
                eventActions.map((value) => ({ value, label: actionLabels[value](language) })),
                true,
              ),
            },
            {
              kind: 'line',
              name: 'filter',
              label: t('filter'),
              maxLength: 2000,
              value: field(form, 'filter').slice(0, 2000),
              help: t('filterHelp'),
            },
            {
              kind: 'choice',
              name: 'filter_when',
              label: t('sendChangesTo'),
              options: choicesOf(form, 'filter_when', modeLabels, language),
            },
            {
              kind: 'line',
              name: 'transitions',
              label: t('transitions'),
              maxLength: 2000,
              value: field(form, 'transitions').slice(0, 2000),
              help: t('transitionsHelp', { example: transitionsExample }),
            },
            {
              kind: 'choice',
              name: 'format',
              label: t('format'),
              options: choicesOf(form, 'format', formatLabels, language),
            },
            {
              kind: 'line',
              name: 'batch_events',
              label: t('eventsPerRequest'),
              maxLength: 3,
              value: field(form, 'batch_events').slice(0, 3),
              help: t('eventsPerRequestHelp', { max: String(maxBatchEvents) }),
            },
            {
              kind: 'line',
              name: 'batch_wait',
              label: t('maxWait'),
              maxLength: 3,
              value: field(form, 'batch_wait').slice(0, 3),
              help: t('maxWaitHelp', { max: String(maxBatchSeconds) }),
            },
            {
              ...(await profileChoice(context, field(form, 'profile'), t('profileHelp'))),
              label: t('profileForEvents'),
            },
          ],
          submit: t('add'),
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
        const t = subscriptionsTexts(context.language);
        return showOnce(context, { id, title: t('added', { url: input.url }), text: t('copyNow'), secret });
      },
    },
  },
  rowActions: {
    rotate: {
      label: later('newSecret'),
      accessibleName: (name) => later('newSecretFor', { name }),
      isOnce: true,
      page: ({ language }, _form, { url }) => {
        const t = subscriptionsTexts(language);
        return {
          kind: 'confirm',
          title: t('newSecretQuestion', { url }),
          consequence: t('newSecretConsequence', { hours: String(overlapHours) }),
          submit: t('createSecret'),
          isSafe: true,
        };
      },
      run: async (context, _form, { id }) => {
        const { organization, actor, transact, services, language } = context;
        const t = subscriptionsTexts(language);
        const sealed = sealing(services.secrets);
        const secret = await transact((tables) => rotateSecret(tables, actor, sealed, organization, id));
        const text = t('copyNewSecret', { hours: String(overlapHours) });
        return showOnce(context, { id, title: t('newSigningSecret'), text, secret });
      },
    },
    remove: {
      label: later('remove'),
      accessibleName: (name) => later('removeName', { name }),
      page: ({ language }, _form, { url }) => {
        const t = subscriptionsTexts(language);
        return {
          kind: 'confirm',
          title: t('removeQuestion', { url }),
          consequence: t('removeConsequence'),
          submit: t('removeSubscription'),
        };
      },
      done: { 'subscription-removed': later('removed') },
      run: ({ organization, actor, transact }, _form, { id }) =>
        transact((tables) => removeSubscription(tables, actor, organization, id)),
    },
    test: {
      label: later('sendTest'),
      accessibleName: (name) => later('sendTestTo', { name }),
      isOffered: ({ state }) => state === 'on',
      isOnce: true,
      done: { 'subscription-test': later('testQueued') },
      run: async ({ organization, transact }, _form, { id }) => {
        await transact((tables) => sendTest(tables, organization, id));
      },
    },
    switch: {
      label: (language, { state }) => (state === 'on' ? later('disable') : later('enable'))(language),
      accessibleName: (name, { state }) =>
        state === 'on' ? later('disableName', { name }) : later('enableName', { name }),
      fields: ({ state }) => [{ name: 'to', value: state === 'on' ? 'off' : 'on' }],
      done: {
        'subscription-on': later('switchedOn'),
        'subscription-off': later('switchedOff'),
      },
      run: async ({ organization, actor, transact }, form, { id, url }) => {
        const state = field(form, 'to');
        if (state !== 'on' && state !== 'off') throw new TranslatedError(later('onOrOff'));
        await transact((tables) => changeSubscription(tables, actor, organization, id, { state }));
        return { done: `subscription-${state}`, name: url, id };
      },
    },
  },
});

/** Redirects the former pages of deliveries. */
function redirectFormerPages(app: FastifyInstance): void {
  const former = `/o/:org/${deliveriesName}`;
  const redirect = (page: string, parameters: Readonly<Record<string, string>>) => {
    app.get(`${former}${page}`, async (request, reply) => {
      const { org } = request.params as { readonly org: string };
      const own = String(new URLSearchParams(parameters));
      // A query that is too long for a header is omitted.
      const query =
        returnQuery(String(new URLSearchParams({ ...parameters, ...parametersOf(request) }))) || own;
      return reply.redirect(`/setup/o/${encodeURIComponent(org)}/events${page}?${query}`, 308);
    });
  };
  redirect('', { show: deliveriesName });
  redirect('/item', {});
}

/** Adds the section with event subscriptions and their deliveries, and the check for failing subscriptions. */
export function subscriptionPages(app: FastifyInstance, services: SubscriptionPageServices): void {
  const deliveries = sentEvents(services);
  addObjects(app, services, [subscriptions, defineObject(deliveriesOf(deliveries))]);
  addTimelineSource(app, eventsOfRecords);
  redirectFormerPages(app);
  addHomeCheck(app, async ({ membership: { organization, slug } }, language) => {
    const t = subscriptionsTexts(language);
    const where = [sql`s.state in ('gone', 'failed') or s.state = 'on' and s.failing_since is not null`];
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
        href: `/setup/o/${slug}/${subscriptionPath(id)}`,
      },
    }));
  });
  addDeliveriesToHome(app, services, deliveries);
}
