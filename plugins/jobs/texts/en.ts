import type { Catalogue } from '../../admin-ui/shell/index.ts';

/** English texts of the pages for jobs. */
export default {
  jobs: 'Jobs',
  rows: 'jobs',
  waiting: 'Waiting',
  running: 'Running',
  completed: 'Completed',
  failed: 'Failed',
  canceled: 'Canceled',
  all: 'All',
  unfinished: 'Unfinished',
  action: 'Action',
  state: 'State',
  progress: 'Progress',
  startedBy: 'Started by',
  started: 'Started',
  finished: 'Finished',
  schedule: 'Schedule',
  nextRun: '{action} runs next on {time}.',
  steps: '{done} of {total}',
  missing: 'Job {id} does not exist.',
  none: 'Jobs are actions and imports that run in the background. They appear here for {days} days.',
} as const satisfies Catalogue;
