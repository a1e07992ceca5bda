import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { UserError } from '../../engine/errors.ts';
import { isRowId } from '../../engine/fields/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import {
  addHomeCheck,
  type DisplayValue,
  field,
  idField,
  linkWithParameters,
  parametersOf,
  section,
} from '../../plugins/admin-ui/shell/index.ts';
import { countItems, listItems, type QueueItem, replayAll, replayItem, showItem, states } from './items.ts';
import type { Queue } from './queue.ts';

const pageLength = 50;
/** Maximum length of a payload shown on the page, in characters. */
const maxDetailLength = 4000;

/** Names and titles of the pages for a queue's items. */
export interface DeliveryPages {
  /** Name (in the URL) and title of the page. */
  readonly name: string;
  readonly title: string;
  /** Text shown if the list is empty. */
  readonly purpose: string;
  /** Column titles for the time and the owner. */
  readonly columns: { readonly time: string; readonly owner: string };
  readonly queue: Queue;
  /** Returns the name of each owner by ID. */
  readonly owners: (tables: Tables, organization: string) => Promise<ReadonlyMap<string, string>>;
}

/** Adds pages that list a queue's items, newest first, with buttons to replay one item or all failed ones. */
export function deliveryPages(
  app: FastifyInstance,
  database: Database,
  { name, title, purpose, columns, queue, owners }: DeliveryPages,
): void {
  const nameOf = (names: ReadonlyMap<string, string>, { owner }: QueueItem) => names.get(owner) ?? 'removed';
  section(app, database, {
    name,
    title,
    done: {
      [`${name}-replayed`]: '{} queued again.',
      [`${name}-all-replayed`]: '{} queued again.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const path = `/setup/o/${slug}/${name}`;
      const parameters = parametersOf(request);
      const { status, before, owner } = parameters;
      const selectedStatus = states.find((state) => state === status);
      const ownerId = isRowId(owner) ? owner : undefined;
      const tables = tablesOf(database);
      const items = await listItems(tables, queue, organization, {
        owner: ownerId,
        status: selectedStatus,
        before: isRowId(before) ? before : undefined,
        limit: pageLength,
      });
      const names = await owners(tables, organization);
      const link = (changes: Readonly<Record<string, string | undefined>>) =>
        linkWithParameters(path, parameters, { before: undefined, ...changes });
      const last = items.length === pageLength ? items.at(-1)?.id : undefined;
      return {
        chips: [
          { label: 'All', href: link({ status: undefined }), current: selectedStatus === undefined },
          ...states.map((state) => ({
            label: labelOf(state),
            href: link({ status: state }),
            current: state === selectedStatus,
          })),
          ...(ownerId === undefined
            ? []
            : [
                {
                  label: names.get(ownerId) ?? 'removed',
                  name: `Remove the filter ${names.get(ownerId) ?? 'removed'}`,
                  isRemoved: true,
                  href: link({ owner: undefined }),
                },
              ]),
        ],
        columns: [{ title: 'Event' }, { title: columns.owner }, { title: 'State' }, { title: columns.time }],
        rows: items.map((item) => ({
          id: item.id,
          cells: [
            { text: item.title, href: `${path}/item?id=${item.id}` },
            { text: nameOf(names, item) },
            stateOf(item),
            { time: item.receivedAt },
          ],
          buttons:
            item.status === 'waiting'
              ? []
              : [
                  {
                    label: 'Replay',
                    name: `Replay ${item.title}`,
                    action: `${path}/replay`,
                    fields: [{ name: 'id', value: item.id }],
                  },
                ],
        })),
        all:
          selectedStatus === 'dead' && items.length > 0
            ? [
                {
                  label: 'Replay all failed',
                  name: 'Replay all failed',
                  action: `${path}/replay-all`,
                  fields: ownerId === undefined ? [] : [{ name: 'owner', value: ownerId }],
                },
              ]
            : [],
        empty:
          selectedStatus === undefined && ownerId === undefined
            ? { text: purpose }
            : { text: 'No deliveries match the filter.', link: { label: 'Show all', href: path } },
        first: before === undefined ? undefined : link({}),
        next: last === undefined ? undefined : link({ before: last }),
      };
    },
    pages: {
      item: async ({ membership: { organization, slug } }, { form }) => {
        const tables = tablesOf(database);
        const item = await showItem(tables, queue, organization, idField(form, 'id'), maxDetailLength + 1);
        return {
          kind: 'record',
          title: item.title,
          values: [
            { label: columns.owner, text: nameOf(await owners(tables, organization), item) },
            { label: columns.time, time: item.receivedAt },
            { label: 'State', ...stateOf(item) },
            {
              label: 'Details',
              long:
                item.detail.length > maxDetailLength
                  ? `${item.detail.slice(0, maxDetailLength)} …`
                  : item.detail,
            },
          ],
          buttons:
            item.status === 'waiting'
              ? []
              : [
                  {
                    label: 'Replay',
                    name: `Replay ${item.title}`,
                    action: `/setup/o/${slug}/${name}/replay`,
                    fields: [{ name: 'id', value: item.id }],
                  },
                ],
        };
      },
    },
    actions: {
      replay: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => replayItem(tables, queue, actor, organization, id));
        const { title: itemTitle } = await showItem(tablesOf(database), queue, organization, id, 1);
        return { done: `${name}-replayed`, name: itemTitle, id };
      },
      'replay-all': async ({ membership: { organization }, actor, transact }, form) => {
        const owner = field(form, 'owner');
        if (owner !== '' && !isRowId(owner)) throw new UserError('this item no longer exists');
        const count = await transact((tables) =>
          replayAll(tables, queue, actor, organization, owner === '' ? undefined : owner),
        );
        return {
          done: `${name}-all-replayed`,
          name: count === 1 ? '1 failed delivery' : `${count} failed deliveries`,
        };
      },
    },
  });
  addHomeCheck(app, async ({ membership: { organization, slug } }) => {
    const count = await countItems(tablesOf(database), queue, organization, 'dead');
    return count === 0
      ? []
      : [
          {
            state: 'bad',
            text: `${title}: ${count} failed.`,
            link: {
              label: 'Show failed',
              name: `Show failed: ${title}`,
              href: `/setup/o/${slug}/${name}?status=dead`,
            },
          },
        ];
  });
}

const stateLabels: Readonly<Record<string, string>> = {
  waiting: 'Waiting',
  done: 'Delivered',
  dead: 'Failed',
};
const labelOf = (status: string): string => stateLabels[status] ?? status;

const stateOf = ({ status, attempts, error }: QueueItem): DisplayValue => ({
  text: `${status === 'waiting' && attempts > 0 ? 'Retrying' : labelOf(status)}${attempts > 0 ? `, ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}` : ''}`,
  state: status === 'dead' ? 'bad' : status === 'done' ? 'good' : 'quiet',
  below: error === '' ? null : error,
});
