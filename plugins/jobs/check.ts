import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck } from '../../engine/modules/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { placeOfJob } from './types.ts';

/** How long a job can wait before it is reported, in minutes. */
const maxWaitMinutes = 60;

/** Reports jobs that failed during the last day, and jobs that wait for a long time. */
export const jobCheck: DoctorCheck<{ readonly database: Database }> = {
  name: 'jobs',
  needs: ['database'],
  run: async ({ database }) => {
    const { rows } = await sql<{
      slug: string;
      resource: string;
      action: string;
      state: string;
      count: string;
    }>`
      select o.slug, j.resource, j.action, j.state, count(*)::text as count
      from crm_jobs j join crm_organizations o on o.id = j.organization_id
      where (j.state = 'failed' and j.finished_at > now() - interval '1 day')
        or (j.state = 'queued' and j.due_at < now() - ${sql.lit(maxWaitMinutes)} * interval '1 minute')
      group by 1, 2, 3, 4 order by count(*) desc, 1, 2, 3, 4 limit 20`.execute(tablesOf(database));
    return rows.map(({ slug, resource, action, state, count }) => ({
      location: `${placeOfJob({ action, resource })}, organization ${slug}`,
      message:
        state === 'failed'
          ? `jobs that failed during the last day: ${count}`
          : `jobs that have been waiting for more than ${maxWaitMinutes} minutes: ${count}`,
      advice:
        state === 'failed'
          ? 'The log has the error of each attempt, with the ID of the job. Setup → Jobs in the admin UI lists the jobs.'
          : 'Check that an instance that can write is running, and whether another job of the organization takes too long.',
    }));
  },
};
