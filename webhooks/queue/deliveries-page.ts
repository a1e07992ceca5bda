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
/** Characters of details that are shown. */
const shown = 4000;

/** How the items of a queue are shown. */
export interface DeliveryPages {
  /** The name and the title of the page. */
  readonly name: string;
  readonly title: string;
  /** What it lists, for an empty list. */
  readonly purpose: string;
  /** The titles of the columns with the time and with the owner. */
  readonly columns: { readonly time: string; readonly owner: string };
  readonly queue: Queue;
  /** What each owner is called, by its id. */
  readonly owners: (tables: Tables, organization: string) => Promise<ReadonlyMap<string, string>>;
}

/** Items of a queue, newest first, with their state and a button to process them again, one or all that were given up. */
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
      [`${name}-replayed`]: '{} is processed again.',
      [`${name}-all-replayed`]: '{} are processed again.',
    },
    load: async ({ membership: { organization, slug } }, request) => {
      const path = `/setup/o/${slug}/${name}`;
      const parameters = parametersOf(request);
      const { status, before, owner } = parameters;
      const wanted = states.find((state) => state === status);
      const of = isRowId(owner) ? owner : undefined;
      const tables = tablesOf(database);
      const items = await listItems(tables, queue, organization, {
        owner: of,
        status: wanted,
        before: isRowId(before) ? before : undefined,
        limit: pageLength,
      });
      const names = await owners(tables, organization);
      const link = (changes: Readonly<Record<string, string | undefined>>) =>
        linkWithParameters(path, parameters, { before: undefined, ...changes });
      const last = items.length === pageLength ? items.at(-1)?.id : undefined;
      return {
        chips: [
          { label: 'all', href: link({ status: undefined }), current: wanted === undefined },
          ...states.map((state) => ({
            label: state,
            href: link({ status: state }),
            current: state === wanted,
          })),
          ...(of === undefined
            ? []
            : [
                {
                  label: names.get(of) ?? 'removed',
                  name: `Remove the filter ${names.get(of) ?? 'removed'}`,
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
          wanted === 'dead' && items.length > 0
            ? [
                {
                  label: 'Replay all dead',
                  name: 'Replay all dead',
                  action: `${path}/replay-all`,
                  fields: of === undefined ? [] : [{ name: 'owner', value: of }],
                },
              ]
            : [],
        empty:
          wanted === undefined && of === undefined
            ? { text: purpose }
            : { text: 'Nothing here.', link: { label: 'Show all', href: path } },
        first: before === undefined ? undefined : link({}),
        next: last === undefined ? undefined : link({ before: last }),
      };
    },
    pages: {
      item: async ({ membership: { organization, slug } }, { given }) => {
        const tables = tablesOf(database);
        const item = await showItem(tables, queue, organization, idField(given, 'id'), shown + 1);
        return {
          kind: 'record',
          title: item.title,
          values: [
            { label: columns.owner, text: nameOf(await owners(tables, organization), item) },
            { label: columns.time, time: item.receivedAt },
            { label: 'State', ...stateOf(item) },
            {
              label: 'What was sent',
              long: item.detail.length > shown ? `${item.detail.slice(0, shown)} …` : item.detail,
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
        const { title: replayed } = await showItem(tablesOf(database), queue, organization, id, 1);
        return { done: `${name}-replayed`, name: replayed, id };
      },
      'replay-all': async ({ membership: { organization }, actor, transact }, form) => {
        const owner = field(form, 'owner');
        if (owner !== '' && !isRowId(owner)) throw new UserError('this item no longer exists');
        const count = await transact((tables) =>
          replayAll(tables, queue, actor, organization, owner === '' ? undefined : owner),
        );
        return { done: `${name}-all-replayed`, name: `${count} given up` };
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
            text: `${title}: ${count} ${count === 1 ? 'was' : 'were'} given up.`,
            link: {
              label: 'Show dead',
              name: `Show dead: ${title}`,
              href: `/setup/o/${slug}/${name}?status=dead`,
            },
          },
        ];
  });
}

const stateOf = ({ status, attempts, error }: QueueItem): DisplayValue => ({
  text: `${status}${attempts > 0 ? `, tried ${attempts} times` : ''}`,
  state: status === 'dead' ? 'bad' : status === 'done' ? 'good' : 'quiet',
  below: error === '' ? null : error,
});
