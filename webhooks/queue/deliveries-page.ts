import type { FastifyInstance } from 'fastify';
import { UserError } from '../../engine/errors.ts';
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
} from '../../plugins/admin-ui/shell/index.ts';
import {
  countItems,
  countRecent,
  detailedItems,
  itemRows,
  maxRecent,
  missingItem,
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

/** Maximum number of payload characters shown on the page. */
const maxDetailLength = 4000;

/** Names for the pages that show a queue's items. */
interface Deliveries {
  /** The page's name (in the URL) and title. */
  readonly name: string;
  readonly title: TextIn;
  readonly icon: IconName;
  /** Text shown if the list is empty. */
  readonly purpose: string;
  /** Column titles for the time and the owner. */
  readonly columns: { readonly time: string; readonly owner: string };
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
    plural: 'deliveries',
    source: itemRows(queue),
    missing: (id) => missingItem(queue, id),
    nameOf: (item) => item.title,
    viewParameter: 'status',
    views: {
      all: { label: 'All' },
      ...Object.fromEntries(
        states.map((state) => [state, { label: labelOf(state), where: withStatus(state) }]),
      ),
    },
    filters: {
      owner: {
        where: (value) => (isRowId(value) ? ownedBy(queue, value) : undefined),
        label: async (value, { tables, organization }) =>
          (await findRow(tables, ownerRows(queue), organization, value))?.name ?? 'removed',
      },
    },
    isUncounted: true,
    columns: [
      {
        title: 'Event',
        cell: (item, { urlOf }) => ({ text: item.title, href: `${urlOf('item')}?id=${item.id}` }),
      },
      { title: columns.owner, cell: ({ ownerName }) => ({ text: ownerName }) },
      { title: 'State', cell: stateOf },
      { title: columns.time, cell: ({ receivedAt }) => ({ time: receivedAt }) },
    ],
    empty: purpose,
    pages: {
      item: async ({ tables, organization }, item) => {
        const source = detailedItems(queue, maxDetailLength + 1);
        const { detail = '' } = (await findRow(tables, source, organization, item.id)) ?? {};
        return {
          kind: 'record',
          title: item.title,
          values: [
            { label: columns.owner, text: item.ownerName },
            { label: columns.time, time: item.receivedAt },
            { label: 'State', ...stateOf(item) },
            {
              label: 'Details',
              long: detail.length > maxDetailLength ? `${detail.slice(0, maxDetailLength)} …` : detail,
            },
          ],
        };
      },
    },
    actions: {
      'replay-all': {
        label: 'Replay all failed',
        isOffered: (_all, { request }) => parametersOf(request).status === 'dead',
        fields: (_all, { request }) => {
          const { owner } = parametersOf(request);
          return isRowId(owner) ? [{ name: 'owner', value: owner }] : [];
        },
        done: { [`${name}-all-replayed`]: '{} queued again.' },
        run: async ({ organization, actor, transact }, form) => {
          const owner = field(form, 'owner');
          if (owner !== '' && !isRowId(owner)) throw new UserError('this item no longer exists');
          const count = await transact((tables) =>
            replayAll(tables, queue, actor, organization, owner === '' ? undefined : owner),
          );
          const subject = count === 1 ? '1 failed delivery' : `${count} failed deliveries`;
          return { done: `${name}-all-replayed`, name: subject };
        },
      },
    },
    rowActions: {
      replay: {
        label: (_language, item) => (isRetrying(item) ? 'Retry now' : 'Replay'),
        isOffered: (item) => item.status !== 'waiting' || isRetrying(item),
        done: { [`${name}-replayed`]: '{} queued again.' },
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
        label: labelOf(status, language),
        hue: stateHues[status] ?? 1,
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

const stateLabels: Readonly<Record<string, TextIn>> = {
  waiting: queueTexts.later('waiting'),
  done: queueTexts.later('delivered'),
  dead: queueTexts.later('failed'),
};
/** Hues of the bars for each status. */
const stateHues: Readonly<Record<string, number>> = { waiting: 8, done: 6, dead: 7 };
const labelOf = (status: string, language: Language = 'en'): string =>
  stateLabels[status]?.(language) ?? status;

const stateOf = ({ status, attempts, error }: QueueItem): DisplayValue => ({
  text: `${isRetrying({ status, attempts }) ? 'Retrying' : labelOf(status)}${attempts > 0 ? `, ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}` : ''}`,
  state: status === 'dead' ? 'bad' : status === 'done' ? 'good' : 'quiet',
  below: error === '' ? null : error,
});
