import type { FastifyInstance } from 'fastify';
import { platform } from '../../engine/platform/index.ts';
import { section } from '../../plugins/setup/page.ts';
import { unmatchedPayments } from '../payments.ts';
import { partnerStatus } from '../status.ts';
import type { PageNeeds } from './index.ts';

/** Which partner endpoints are on, and what came of payments that had no lead. Nothing is changed here. */
export function partnerPage(app: FastifyInstance, { database, settings }: PageNeeds): void {
  section(app, database, {
    name: 'partners',
    title: 'Partners',
    load: async ({ membership: { organization, slug } }) => {
      const tables = platform(database);
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
