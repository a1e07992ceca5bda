import type { FastifyInstance } from 'fastify';
import { isRowId } from '../../engine/fields/index.ts';
import { listActivity, platform } from '../../engine/platform/index.ts';
import type { Setup } from './index.ts';
import { section } from './page.ts';

const pageLength = 50;

/** Who did what, newest first. */
export function activityPage(app: FastifyInstance, { config, database }: Setup): void {
  section(app, database, {
    name: 'activity',
    title: 'Activity',
    load: async ({ membership: { organization } }, request) => {
      const { before } = request.query as { before?: unknown };
      const from = isRowId(before) ? before : undefined;
      const lines = await listActivity(platform(database), organization, { before: from, limit: pageLength });
      const last = lines.length === pageLength ? lines.at(-1)?.id : undefined;
      return { lines, older: last, off: !config.audit };
    },
    actions: {},
  });
}
