// Jobs: runs actions of modules in the background, and shows their progress.
// May import engine, admin-ui/shell.

import { sql } from 'kysely';
import { deleteExpired, type Module, startRetention } from '../../engine/modules/index.ts';
import { jobTables } from '../../engine/records/index.ts';
import type { Tables } from '../../engine/tables/index.ts';
import { jobRoutes, jobsFragment } from './api.ts';
import { jobCheck } from './check.ts';
import { jobMetrics } from './metrics.ts';
import { jobsPage } from './page.ts';
import { type JobServices, jobTypes, runJobs } from './run.ts';

export { cancelVisibleJob, findJob } from './jobs.ts';
export { progressOfJob, stateOfJob } from './page.ts';
export { scheduleIssue } from './schedule.ts';
export { jobsTexts } from './texts/index.ts';

/** Retention period of jobs, in days. */
const retentionDays = 7;

/** Deletes a batch of old jobs, also of actions that no longer exist. @returns the number of deleted jobs */
export const jobsRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_jobs',
    ['organization_id', 'id'],
    sql`created_at < now() - ${retentionDays}::int * interval '1 day' and state <> 'running'
      and (finished_at is null or finished_at < now() - ${retentionDays}::int * interval '1 day')`,
    'created_at',
  );

/** Jobs: actions of modules that run in the background. */
export const jobsModule: Module<JobServices, unknown, Pick<JobServices, 'database'>> = {
  name: 'jobs',
  tables: jobTables,
  metrics: ({ database }) => [jobMetrics(database)],
  pages: jobsPage,
  checks: [jobCheck],
  openApi: (_definitions, { actions }) => jobsFragment(actions),
  register: (app, services) => {
    const { database, resources } = services;
    startRetention(app, database, { label: 'old jobs', steps: [jobsRetention] });
    const hooks = resources[0]?.context.hooks;
    if (hooks === undefined || jobTypes(resources).length === 0) return;
    hooks.observer.jobQueued = runJobs(app, services);
    jobRoutes(app, services);
  },
};
