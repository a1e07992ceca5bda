// Jobs: runs actions of modules, and work of other parts of the instance, in the background, and shows the progress.
// May import engine, admin-ui/shell.

import { type Module, startRetention } from '../../engine/modules/index.ts';
import { jobTables } from '../../engine/records/index.ts';
import { actionJobTypes, jobActions } from './action-jobs.ts';
import { jobRoutes, jobsFragment } from './api.ts';
import { jobCheck } from './check.ts';
import { jobMetrics } from './metrics.ts';
import { jobsPage } from './page.ts';
import { jobsRetention } from './retention.ts';
import { runJobs } from './run.ts';
import type { JobServices } from './types.ts';

export { cancelVisibleJob, findJob, type VisibleJob } from './jobs.ts';
export { progressOfJob, stateOfJob } from './page.ts';
export { scheduleIssue } from './schedule.ts';
export { jobsTexts } from './texts/index.ts';
export { internalName, type JobType, maxResult, permittedCaller, type RunningJob } from './types.ts';

/** Jobs: actions of modules, and work of other parts of the instance, that run in the background. */
export const jobsModule: Module<JobServices, unknown, Pick<JobServices, 'database'>> = {
  name: 'jobs',
  tables: jobTables,
  metrics: ({ database }) => [jobMetrics(database)],
  pages: jobsPage,
  checks: [jobCheck],
  openApi: (_definitions, { actions }) => jobsFragment(actions),
  register: (app, services) => {
    const { database, resources, config } = services;
    const types = [...actionJobTypes(app, services)];
    app.decorate('jobs', { database, resources, types, audited: config.audit });
    startRetention(app, database, { label: 'old jobs', steps: [jobsRetention] });
    const hooks = resources[0]?.context.hooks;
    if (hooks === undefined) return;
    const actions = jobActions(resources);
    hooks.observer.jobQueued = runJobs(app, actions);
    if (actions.length > 0) jobRoutes(app);
  },
};
