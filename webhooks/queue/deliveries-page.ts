import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { isRowId } from '../../engine/fields/index.ts';
import { type Tables, tablesOf } from '../../engine/tables/index.ts';
import { idField, section, viewsIn } from '../../plugins/screens/index.ts';
import { type Item, listItems, replayItem, showItem, states } from './items.ts';
import type { Queue } from './queue.ts';

const pageLength = 50;
/** Characters of details that are shown. */
const shown = 4000;

/** How the items of a queue are shown. */
export interface DeliveryPages {
  /** The name and the title of the page. */
  readonly name: string;
  readonly title: string;
  /** The titles of the columns with the time and with the owner. */
  readonly columns: { readonly time: string; readonly owner: string };
  readonly queue: Queue;
  /** What each owner is called, by its id. */
  readonly owners: (tables: Tables, organization: string) => Promise<ReadonlyMap<string, string>>;
}

/** Items of a queue, newest first, with their state and a button to process them again. */
export function deliveryPages(
  app: FastifyInstance,
  database: Database,
  { name, title, columns, queue, owners }: DeliveryPages,
): void {
  section(app, database, {
    name,
    title,
    view: viewsIn(import.meta.dirname)('deliveries'),
    done: {
      [`${name}-replayed`]: 'The delivery is processed again.',
    },
    load: async ({ membership: { organization } }, request) => {
      const { status, before, item, owner } = request.query as Readonly<Record<string, unknown>>;
      const wanted = states.find((state) => state === status);
      const [from, of] = [isRowId(before) ? before : undefined, isRowId(owner) ? owner : undefined];
      const tables = tablesOf(database);
      const items = await listItems(tables, queue, organization, {
        owner: of,
        status: wanted,
        before: from,
        limit: pageLength,
      });
      const names = await owners(tables, organization);
      const chosen = isRowId(item) ? await showItem(tables, queue, organization, item, shown + 1) : undefined;
      return {
        columns,
        chosen: chosen && {
          ...describe(chosen, names),
          detail: chosen.detail.slice(0, shown),
          cut: chosen.detail.length > shown,
        },
        items: items.map((item) => describe(item, names)),
        states: states.map((state) => ({ state, current: state === wanted })),
        status: wanted,
        before: from,
        owner: of,
        older: items.length === pageLength ? items.at(-1)?.id : undefined,
      };
    },
    actions: {
      replay: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => replayItem(tables, queue, actor, organization, id));
        return { done: `${name}-replayed` };
      },
    },
  });
}

const describe = (item: Item, names: ReadonlyMap<string, string>) => ({
  ...item,
  from: names.get(item.owner) ?? 'removed',
  waiting: item.status === 'waiting',
});
