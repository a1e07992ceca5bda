import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { Metrics } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { retentionDays } from './retention.ts';

/** States that are reported. Completed and canceled jobs need no attention. */
const states = ['queued', 'running', 'failed'] as const;

/** Returns the number of jobs by state. */
export const jobMetrics = (database: Database): Metrics => ({
  ofInstance: true,
  families: {
    crm_jobs: {
      type: 'gauge',
      help: `Number of jobs by state: queued, running, or failed during the last ${retentionDays} days.`,
    },
  },
  read: async (report) => {
    const { rows } = await sql<{ state: string; count: string }>`
      select state, count(*)::text as count from crm_jobs where state in (${sql.join(states.map((state) => sql.lit(state)))})
      group by state`.execute(tablesOf(database));
    for (const state of states)
      report('crm_jobs', Number(rows.find((row) => row.state === state)?.count ?? 0), { state });
  },
});
