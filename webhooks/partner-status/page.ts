import type { FastifyInstance } from 'fastify';
import { tablesOf } from '../../engine/tables/index.ts';
import { section, viewsIn } from '../../plugins/screens/index.ts';
import type { WebhookServices } from '../endpoint/index.ts';
import { unmatchedPayments } from '../payments/index.ts';
import { partnerStatus } from './status.ts';

/** A read-only page: the state of the partner endpoints, and payments without a lead. */
export function partnerPage(app: FastifyInstance, { database, settings }: WebhookServices): void {
  section(app, database, {
    name: 'partners',
    title: 'Partners',
    view: viewsIn(import.meta.dirname)('partners'),
    load: async ({ membership: { organization, slug } }) => {
      const tables = tablesOf(database);
      const all = await partnerStatus(tables, settings.current);
      return {
        // Other organizations' customers are not shown.
        endpoints: all.filter((each) => each.organization === null || each.organization === slug),
        unmatched: await unmatchedPayments(tables, organization, 50),
      };
    },
    actions: {},
  });
}
