import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { section, viewsIn } from '../screens/index.ts';
import { listActivity } from './activity.ts';

const pageLength = 50;

/** The ledger, newest first. */
export function activityPage(
  app: FastifyInstance,
  { config, database }: { readonly config: AuditConfig; readonly database: Database },
): void {
  section(app, database, {
    name: 'activity',
    title: 'Activity',
    view: viewsIn(import.meta.dirname)('activity'),
    load: async ({ membership: { organization } }, request) => {
      const { before } = request.query as { before?: unknown };
      const lines = await listActivity(tablesOf(database), organization, { before, limit: pageLength });
      const last = lines.length === pageLength ? lines.at(-1)?.place : undefined;
      return { lines, older: last, off: !config.audit };
    },
    actions: {},
  });
}
