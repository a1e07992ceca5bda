import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../engine/tables/index.ts';
import { section, viewsIn } from '../../plugins/screens/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { unmatchedPayments } from '../payments/index.ts';
import { partnerStatus } from './status.ts';

/** Which partner endpoints are on, and what came of payments that had no lead. Nothing is changed here. */
export function partnerPage(app: FastifyInstance, { database, settings }: WebhookServices): void {
  section(app, database, {
    name: 'partners',
    title: 'Partners',
    view: viewsIn(import.meta.dirname)('partners'),
    load: async ({ membership: { organization, slug } }) => {
      const tables = tablesOf(database);
      const all = await partnerStatus(tables, settings.current);
      return {
        // Another organization's customers are nobody else's business.
        endpoints: all.filter((each) => each.organization === null || each.organization === slug),
        unmatched: await unmatchedPayments(tables, organization, 50),
      };
    },
    actions: {},
  });
}
