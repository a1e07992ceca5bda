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
  localeOf,
  memberOf,
  type ObjectServices,
  parametersOf,
  type TextIn,
  TranslatedError,
} from '../../plugins/admin-ui/shell/index.ts';
import {
  countItems,
  countRecent,
  detailedItems,
  type ItemState,
  itemRows,
  maxRecent,
  ownedBy,
  ownerRows,
  type QueueItem,
  replayAll,
  replayItem,
  states,
  withStatus,
} from './items.ts';
import type { Queue } from './queue.ts';
import { queueTexts } from './texts/index.ts';

const { later } = queueTexts;

/** Maximum number of payload characters shown on the page. */
const maxDetailLength = 4000;

/** Names for the pages that show a queue's items. */
interface Deliveries {
  /** The page's name (in the URL) and title. */
  readonly name: string;
  readonly title: TextIn;
  readonly icon: IconName;
  /** Text shown if the list is empty. */
  readonly purpose: TextIn;
  /** Column titles for the time and the owner. */
  readonly columns: { readonly time: TextIn; readonly owner: TextIn };
  readonly queue: Queue;
}

/** Returns whether an item waits for another attempt. */
const isRetrying = ({ status, attempts }: Pick<QueueItem, 'status' | 'attempts'>): boolean =>
  status === 'waiting' && attempts > 0;

/** Declares a queue's items, newest first, with buttons to replay one item or all failed items. */
const deliveriesOf = ({ name, title, icon, purpose, columns, queue }: Deliveries) =>
  defineObject<QueueItem, ObjectServices>({
    name,
    title,
    group: 'Integrations',
    icon,
    plural: later('deliveries'),
    source: itemRows(queue),
    missing: queue.missing,
    nameOf: (item) => item.title,
    viewParameter: 'status',
    views: {
      all: { label: later('all') },
      ...Object.fromEntries(
        states.map((state) => [state, { label: stateLabels[state], where: withStatus(state) }]),
      ),
      retrying: { label: later('retrying'), where: "i.status = 'waiting' and i.attempts > 0" },
    },
    filters: {
      owner: {
        where: (value) => (isRowId(value) ? ownedBy(queue, value) : undefined),
        label: async (value, { tables, organization, language }) =>
          (await findRow(tables, ownerRows(queue), organization, value))?.name ?? later('removed')(language),
      },
    },
    isUncounted: true,
    columns: [
      {
        title: later('event'),
        cell: (item, { urlOf }) => ({ text: item.title, href: `${urlOf('item')}?id=${item.id}` }),
      },
      { title: columns.owner, cell: ownerOf },
      { title: later('state'), cell: (item, { language }) => stateOf(item, language) },
      { title: columns.time, cell: ({ receivedAt }) => ({ time: receivedAt }) },
    ],
    empty: purpose,
    pages: {
      item: async ({ tables, organization, language }, item) => {
        const t = queueTexts(language);
        const source = detailedItems(queue, maxDetailLength + 1);
        const { detail = '' } = (await findRow(tables, source, organization, item.id)) ?? {};
        return {
          kind: 'record',
          title: item.title,
          values: [
            { label: columns.owner(language), ...ownerOf(item, { language }) },
            { label: columns.time(language), time: item.receivedAt },
            { label: t('state'), ...stateOf(item, language) },
            {
              label: t('details'),
              long: detail.length > maxDetailLength ? `${detail.slice(0, maxDetailLength)} …` : detail,
            },
          ],
        };
      },
    },
    actions: {
      'replay-all': {
        label: later('replayAll'),
        isOffered: (_all, { request }) => parametersOf(request).status === 'dead',
        fields: (_all, { request }) => {
          const { owner } = parametersOf(request);
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
  });

/** Adds the pages for a queue's items, and the check that reports failed items. */
export function addDeliveries(app: FastifyInstance, services: ObjectServices, deliveries: Deliveries): void {
  const { name, queue } = deliveries;
  addObjects(app, services, [deliveriesOf(deliveries)]);
  addHomeParts(app, async (request, language) => {
    const t = queueTexts(language);
    const title = deliveries.title(language);
    const { membership } = memberOf(app, request);
    if (!isAdministrator(membership)) return {};
    const counts = await countRecent(tablesOf(services.database), queue, membership.organization);
    if (counts.size === 0) return {};
    const largest = Math.max(...counts.values());
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const path = `/setup/o/${membership.slug}/${name}`;
    const numbers = new Intl.NumberFormat(localeOf(request));
    const rows = states.map((status) => {
      const count = counts.get(status) ?? 0;
      return {
        label: stateLabels[status](language),
        hue: stateHues[status],
        href: `${path}?status=${status}`,
        count: numbers.format(count),
        share: Math.round((100 * count) / largest),
      };
    });
    const heading =
      total === maxRecent
        ? t('last', { title, number: numbers.format(maxRecent) })
        : t('lastDays', { title });
    return {
      charts: [{ title: heading, href: path, label: t('status'), countLabel: t('number'), rows }],
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
              href: `/setup/o/${slug}/${name}?status=dead`,
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

const ownerOf = ({ ownerName }: QueueItem, { language }: { readonly language: Language }): DisplayValue => ({
  text: ownerName ?? later('removed')(language),
});

function stateOf({ status, attempts, error }: QueueItem, language: Language): DisplayValue {
  const t = queueTexts(language);
  const label = isRetrying({ status, attempts }) ? t('retrying') : stateLabels[status](language);
  return {
    text:
      attempts > 0
        ? t('afterAttempts', { state: label, attempts: t('attempts', { count: attempts }) })
        : label,
    state: status === 'dead' ? 'bad' : status === 'done' ? 'good' : 'quiet',
    below: error === '' ? null : error,
  };
}
