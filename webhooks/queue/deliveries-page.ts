import type { FastifyInstance } from 'fastify';
import { isRowId } from '../../engine/fields/index.ts';
import { findRow, tablesOf } from '../../engine/tables/index.ts';
import {
  addHomeCheck,
  addHomeParts,
  addObjects,
  type DisplayValue,
  defineObject,
  field,
  type IconName,
  isAdministrator,
  type Language,
  linkWithParameters,
  localeOf,
  memberOf,
  type ObjectContext,
  type ObjectDefinition,
  type ObjectServices,
  parametersOf,
  type RecordPage,
  returnQuery,
  type Text,
  type TextIn,
  TranslatedError,
} from '../../plugins/admin-ui/shell/index.ts';
import { attemptsIn, type ItemAttempt, reasonFor } from './attempts.ts';
import {
  countItems,
  countRecent,
  type DisplayedItem,
  displayedItems,
  type ItemState,
  itemLogs,
  maxRecent,
  ownedBy,
  ownerRows,
  type QueueItem,
  recentDays,
  replayAll,
  replayItem,
  states,
  withStatus,
} from './items.ts';
import type { Queue } from './queue.ts';
import { reasonSentence, translatedReason } from './reasons.ts';
import { queueTexts } from './texts/index.ts';

const { later } = queueTexts;

/** The parts of an item's page that depend on the queue. */
type ItemPage = Pick<RecordPage, 'intro' | 'values' | 'links'>;

/** Value of the parameter `from` of an item's page that was opened from its owner's page. */
const fromOwner = 'owner';

/** Names for the pages that show a queue's items. */
export interface Deliveries {
  /** The list's name (in the URL) and title. */
  readonly name: string;
  readonly title: TextIn;
  /** Label of the list in a section with several objects. */
  readonly tab?: TextIn;
  readonly icon: IconName;
  /** Name of the section that has the list as a tab. Absent if the list is a section of its own. */
  readonly section?: string;
  /** Text shown if the list is empty. */
  readonly purpose: TextIn;
  /** Column titles for the time and the owner. */
  readonly columns: { readonly time: TextIn; readonly owner: TextIn };
  readonly queue: Queue;
  /** Returns an item's title, created from its subject. Default: the subject. */
  readonly titleOf?: (subject: string, language: Language) => string;
  /** Returns the URL of an owner's page below the organization's setup. Absent if owners have no page. */
  readonly ownerPath?: (owner: string) => string;
  /** Returns the parts of an item's page that depend on the queue. */
  readonly page: (context: ObjectContext<ObjectServices>, item: DisplayedItem) => Promise<ItemPage>;
  /** Full values that the page truncates, keyed by the last segment of their URL. */
  readonly wholeValues?: ObjectDefinition<DisplayedItem, ObjectServices>['wholeValues'];
}

/** Returns whether an item waits for another attempt. */
const isRetrying = ({ status, attempts }: Pick<QueueItem, 'status' | 'attempts'>): boolean =>
  status === 'waiting' && attempts > 0;

/**
 * Declares a queue's items, newest first, with buttons to replay one item or all failed items.
 * @param ownerId limits the list to the items of an owner
 */
export function deliveriesOf(
  deliveries: Deliveries,
  ownerId?: string,
): ObjectDefinition<DisplayedItem, ObjectServices> {
  const { name, title, tab, icon, purpose, columns, queue, titleOf, wholeValues } = deliveries;
  const titleIn = ({ subject }: DisplayedItem, language: Language) => titleOf?.(subject, language) ?? subject;
  return {
    name,
    title,
    ...(tab && { tab }),
    group: 'Integrations',
    icon,
    plural: later('deliveries'),
    source: displayedItems(queue),
    ...(ownerId !== undefined && { where: ownedBy(queue, ownerId) }),
    missing: queue.missing,
    nameOf: titleIn,
    viewParameter: 'status',
    views: {
      all: { label: later('all') },
      ...Object.fromEntries(
        states.map((state) => [state, { label: stateLabels[state], where: withStatus(state) }]),
      ),
      retrying: { label: later('retrying'), where: "i.status = 'waiting' and i.attempts > 0" },
    },
    filters:
      ownerId === undefined
        ? {
            owner: {
              where: (value) => (isRowId(value) ? ownedBy(queue, value) : undefined),
              label: async (value, { tables, organization, language }) =>
                (await findRow(tables, ownerRows(queue), organization, value))?.name ??
                later('removed')(language),
            },
          }
        : {},
    isUncounted: true,
    columns: [
      {
        title: later('event'),
        cell: (item, context) => ({
          text: titleIn(item, context.language),
          href: linkWithParameters(
            context.urlOf('item'),
            { id: item.id },
            { ...(ownerId !== undefined && { from: fromOwner }), at: returnQueryOf(context) },
          ),
        }),
      },
      ...(ownerId === undefined
        ? [
            {
              title: columns.owner,
              cell: (item: DisplayedItem, context: ObjectContext<ObjectServices>) =>
                ownerOf(deliveries, item, context),
            },
          ]
        : []),
      { title: later('state'), cell: (item, { language }) => stateOf(queue, item, language) },
      { title: columns.time, cell: ({ receivedAt }) => ({ time: receivedAt }) },
    ],
    empty: purpose,
    pages: {
      item: async (context, item) => {
        const { tables, organization, language } = context;
        const t = queueTexts(language);
        const [log, page] = await Promise.all([
          findRow(tables, itemLogs(queue), organization, item.id),
          deliveries.page(context, item),
        ]);
        return {
          kind: 'record',
          ...page,
          ...aboveOf(deliveries, item, context),
          title: titleIn(item, language),
          values: [
            { label: columns.owner(language), ...ownerOf(deliveries, item, context) },
            { label: columns.time(language), time: item.receivedAt },
            { label: t('state'), ...stateOf(queue, item, language) },
            ...(log?.nextAt ? [{ label: t('nextAttempt'), time: log.nextAt }] : []),
            ...page.values,
          ],
          changes: {
            title: t('attemptsTitle'),
            all: attemptsIn(log?.attempts ?? '').map((attempt) => attemptEntry(queue, attempt, context)),
            none: t('noAttempts'),
          },
        };
      },
    },
    ...(wholeValues && { wholeValues }),
    actions: {
      'replay-all': {
        label: later('replayAll'),
        isOffered: (_all, { request }) => parametersOf(request).status === 'dead',
        fields: (_all, { request }) => {
          const owner = ownerId ?? parametersOf(request).owner;
          return isRowId(owner) ? [{ name: 'owner', value: owner }] : [];
        },
        done: { [`${name}-all-replayed`]: later('queuedAgain') },
        run: async ({ organization, actor, transact, language }, form) => {
          const owner = field(form, 'owner');
          if (owner !== '' && !isRowId(owner)) throw new TranslatedError(later('itemMissing'));
          const count = await transact((tables) =>
            replayAll(tables, queue, actor, organization, owner === '' ? undefined : owner),
          );
          return { done: `${name}-all-replayed`, name: queueTexts(language)('failedDeliveries', { count }) };
        },
      },
    },
    rowActions: {
      replay: {
        label: (language, item) => (isRetrying(item) ? later('retryNow') : later('replay'))(language),
        accessibleName: (name, item) =>
          isRetrying(item) ? later('retryNowName', { name }) : later('replayName', { name }),
        isOffered: (item) => item.status !== 'waiting' || isRetrying(item),
        done: { [`${name}-replayed`]: later('queuedAgain') },
        run: ({ organization, actor, transact }, _form, { id }) =>
          transact((tables) => replayItem(tables, queue, actor, organization, id)),
      },
    },
  };
}

/** Adds the section with a queue's items, and reports them on the home page. */
export function addDeliveries(app: FastifyInstance, services: ObjectServices, deliveries: Deliveries): void {
  addObjects(app, services, [defineObject(deliveriesOf(deliveries))]);
  addDeliveriesToHome(app, services, deliveries);
}

/** Adds a chart of a queue's items to the home page, and the check that reports failed items. */
export function addDeliveriesToHome(
  app: FastifyInstance,
  services: ObjectServices,
  deliveries: Deliveries,
): void {
  const { name, section, queue } = deliveries;
  const urlOf = (slug: string, filters: Readonly<Record<string, string>>) =>
    linkWithParameters(
      `/setup/o/${slug}/${section ?? name}`,
      section === undefined ? {} : { show: name },
      filters,
    );
  addHomeParts(app, async (request, language) => {
    const t = queueTexts(language);
    const title = deliveries.title(language);
    const { membership } = memberOf(app, request);
    if (!isAdministrator(membership)) return {};
    const counts = await countRecent(tablesOf(services.database), queue, membership.organization);
    if (counts.size === 0) return {};
    const largest = Math.max(...counts.values());
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const { slug } = membership;
    const numbers = new Intl.NumberFormat(localeOf(request));
    const rows = states.map((status) => {
      const count = counts.get(status) ?? 0;
      return {
        label: stateLabels[status](language),
        hue: stateHues[status],
        href: urlOf(slug, { status }),
        count: numbers.format(count),
        share: Math.round((100 * count) / largest),
      };
    });
    const heading =
      total === maxRecent
        ? t('last', { title, number: numbers.format(maxRecent) })
        : t('lastDays', { title, days: String(recentDays) });
    return {
      charts: [{ title: heading, href: urlOf(slug, {}), label: t('status'), countLabel: t('number'), rows }],
    };
  });
  addHomeCheck(app, async ({ membership: { organization, slug } }, language) => {
    const t = queueTexts(language);
    const title = deliveries.title(language);
    const count = await countItems(tablesOf(services.database), queue, organization, 'dead');
    return count === 0
      ? []
      : [
          {
            state: 'bad',
            text: t('failedCount', { title, count }),
            link: {
              label: t('showFailures'),
              name: t('showFailuresOf', { title }),
              href: urlOf(slug, { status: 'dead' }),
            },
          },
        ];
  });
}

const stateLabels: Readonly<Record<ItemState, TextIn>> = {
  waiting: later('waiting'),
  done: later('delivered'),
  dead: later('failed'),
};
/** Hues of the bars for each status. */
const stateHues: Readonly<Record<ItemState, number>> = { waiting: 8, done: 6, dead: 7 };

function ownerOf(
  { ownerPath }: Deliveries,
  { owner, ownerName }: Pick<QueueItem, 'owner' | 'ownerName'>,
  { slug, language }: Pick<ObjectContext<ObjectServices>, 'slug' | 'language'>,
): DisplayValue {
  if (ownerName === null) return { text: later('removed')(language) };
  return { text: ownerName, ...(ownerPath && { href: `/setup/o/${slug}/${ownerPath(owner)}` }) };
}

/** Returns the query string of the list to which an item's page links. */
const returnQueryOf = ({ request }: ObjectContext<ObjectServices>): string =>
  linkWithParameters('', parametersOf(request), { before: undefined, id: undefined }).slice(1);

/** Returns the link from an item's page to its owner's page, with the filters of its list, if it was opened from there. */
function aboveOf(
  deliveries: Deliveries,
  item: DisplayedItem,
  context: ObjectContext<ObjectServices>,
): Pick<RecordPage, 'above'> {
  const { from, at } = parametersOf(context.request);
  const { text, href } = ownerOf(deliveries, item, context);
  if (from !== fromOwner || href === undefined) return {};
  const [path = '', query] = href.split('?');
  const own = Object.fromEntries(new URLSearchParams(query));
  const list = Object.fromEntries(new URLSearchParams(returnQuery(at)));
  // The owner is the item's own, regardless of the request's parameters.
  return { above: { label: text ?? '', href: linkWithParameters(path, own, { ...list, ...own }) } };
}

/** Returns an item's state without the number of attempts. */
export function itemState(
  { status, attempts, latest }: Pick<DisplayedItem, 'status' | 'attempts' | 'latest'>,
  language: Language,
): { readonly text: Text; readonly state: NonNullable<DisplayValue['state']> } {
  const t = queueTexts(language);
  const isSkipped = status === 'done' && attemptsIn(latest)[0]?.result === 'skipped';
  if (isRetrying({ status, attempts })) return { text: t('retrying'), state: 'quiet' };
  if (isSkipped) return { text: t('skipped'), state: 'quiet' };
  return { text: stateLabels[status](language), state: badgeStates[status] };
}

/** Styles of the badges for each status. */
const badgeStates: Readonly<Record<ItemState, NonNullable<DisplayValue['state']>>> = {
  waiting: 'quiet',
  done: 'good',
  dead: 'bad',
};

function stateOf({ reasons }: Queue, item: DisplayedItem, language: Language): DisplayValue {
  const t = queueTexts(language);
  const { status, attempts, error, latest } = item;
  const { text, state } = itemState(item, language);
  const reason = reasonFor(reasons, { status, error, latest: attemptsIn(latest)[0] }, language);
  return {
    text:
      attempts > 0 ? t('afterAttempts', { state: text, attempts: t('attempts', { count: attempts }) }) : text,
    state,
    below: reason === '' ? null : reason,
    title: reason,
  };
}

/** Icons of attempts by result. */
const attemptIcons: Readonly<Record<ItemAttempt['result'], IconName>> = {
  done: 'check',
  skipped: 'info',
  failed: 'x',
};

/** Returns an attempt as an entry of the timeline. */
function attemptEntry(
  { reasons }: Queue,
  { at, ms, result, reason, request }: ItemAttempt,
  { language, request: pageRequest }: ObjectContext<ObjectServices>,
): NonNullable<RecordPage['changes']>['all'][number] {
  const t = queueTexts(language);
  const inSeconds = ms >= 1000;
  const duration = new Intl.NumberFormat(localeOf(pageRequest), {
    style: 'unit',
    unit: inSeconds ? 'second' : 'millisecond',
    maximumFractionDigits: 1,
  }).format(inSeconds ? ms / 1000 : ms);
  const explained =
    reason && (translatedReason(reasons, reason, language) ?? reasonSentence(reasons, reason));
  const delivered =
    request?.status === undefined ? t('delivered') : t('deliveredWith', { status: String(request.status) });
  const text = result === 'skipped' ? t('notSent', { reason: explained ?? '' }) : (explained ?? delivered);
  return { at, icon: attemptIcons[result], text, detail: t('afterDuration', { duration }) };
}
