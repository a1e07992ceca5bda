import type { FastifyInstance } from 'fastify';
import { isRowId } from '../../engine/fields/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { idField, section, viewsIn } from '../../plugins/screens/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { type InboxItem, listInbox, replay, showInbox, states } from './inbox.ts';
import { listIntegrations } from './integrations.ts';

const pageLength = 50;
/** Characters of a payload that are shown. */
const shown = 4000;

/** Events delivered by channels, newest first, with their state and a button to process them again. */
export function deliveryPages(app: FastifyInstance, { database }: WebhookServices): void {
  section(app, database, {
    name: 'deliveries',
    title: 'Deliveries',
    view: viewsIn(import.meta.dirname)('deliveries'),
    done: {
      replayed: 'The delivery is processed again.',
    },
    load: async ({ membership: { organization } }, request) => {
      const { status, before, item } = request.query as Readonly<Record<string, unknown>>;
      const wanted = states.find((state) => state === status);
      const from = isRowId(before) ? before : undefined;
      const tables = tablesOf(database);
      const items = await listInbox(tables, organization, {
        status: wanted,
        before: from,
        limit: pageLength,
      });
      const integrations = await listIntegrations(tables, organization);
      const names = new Map(integrations.map(({ id, name, label }) => [id, `${name} (${label})`]));
      const chosen = isRowId(item) ? await showInbox(tables, organization, item, shown + 1) : undefined;
      return {
        chosen: chosen && {
          ...describe(chosen, names),
          payload: chosen.payload.slice(0, shown),
          cut: chosen.payload.length > shown,
        },
        items: items.map((item) => describe(item, names)),
        states: states.map((state) => ({ state, current: state === wanted })),
        status: wanted,
        before: from,
        older: items.length === pageLength ? items.at(-1)?.id : undefined,
      };
    },
    actions: {
      replay: async ({ membership: { organization }, actor, transact }, form) => {
        const id = idField(form, 'id');
        await transact((tables) => replay(tables, actor, organization, id));
        return { done: 'replayed' };
      },
    },
  });
}

const describe = (item: InboxItem, names: ReadonlyMap<string, string>) => ({
  ...item,
  from: names.get(item.integration) ?? 'removed',
  waiting: item.status === 'waiting',
});
