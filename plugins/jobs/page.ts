import type { FastifyInstance } from 'fastify';
import { resourceLabel } from '../../engine/definition/index.ts';
import { humanize } from '../../engine/fields/index.ts';
import { type JobState, labelOfAction } from '../../engine/records/index.ts';
import type { RowSource } from '../../engine/tables/index.ts';
import { addObjects, type DisplayValue, defineObject } from '../admin-ui/shell/index.ts';
import { type JobServices, jobTypes } from './run.ts';

/** How each state is displayed. */
export const jobStates: Readonly<Record<JobState, DisplayValue>> = {
  queued: { text: 'Waiting', state: 'quiet' },
  running: { text: 'Running' },
  completed: { text: 'Completed', state: 'good' },
  failed: { text: 'Failed', state: 'bad' },
  cancelled: { text: 'Canceled', state: 'quiet' },
};

/** A job in the list of jobs. */
interface JobRow {
  readonly id: string;
  readonly resource: string;
  readonly action: string;
  readonly state: JobState;
  readonly done: string | null;
  readonly total: string | null;
  /** Email address of the user or name of the API key that started it; null if it was started by the schedule or was deleted. */
  readonly starter: string | null;
  readonly isScheduled: boolean;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

const jobRows: RowSource<JobRow> = {
  from: 'crm_jobs j',
  owner: 'j.organization_id',
  columns: {
    id: 'j.id',
    resource: 'j.resource',
    action: 'j.action',
    state: 'j.state',
    done: 'j.done',
    total: 'j.total',
    starter: `coalesce(
      (select u.email from crm_users u where u.id = j.caller_id and j.caller_kind = 'user'),
      (select k.name from crm_api_keys k where k.organization_id = j.organization_id and k.id = j.caller_id and j.caller_kind = 'key'))`,
    isScheduled: 'j.scheduled_for is not null',
    createdAt: 'j.created_at',
    finishedAt: 'j.finished_at',
  },
  search: ['j.resource', 'j.action'],
  order: 'j.id desc',
};

/** Adds the list of an organization's jobs to its setup. */
export function jobsPage(app: FastifyInstance, services: JobServices): void {
  const types = jobTypes(services.resources);
  if (types.length === 0) return;
  const jobs = defineObject<JobRow, JobServices>({
    name: 'jobs',
    title: 'Jobs',
    group: 'Data',
    icon: 'clock',
    plural: 'jobs',
    source: jobRows,
    missing: (id) => `Job ${id} does not exist.`,
    nameOf: ({ id }) => id,
    views: {
      all: { label: 'All' },
      unfinished: { label: 'Unfinished', where: `j.state in ('queued', 'running')` },
      failed: { label: 'Failed', where: `j.state = 'failed'` },
    },
    columns: [
      {
        title: 'Action',
        cell: ({ id, resource, action }, { slug }) => {
          const type = types.find(
            (candidate) => candidate.resource.name === resource && candidate.action.name === action,
          );
          return type === undefined
            ? { text: humanize(action.replaceAll('-', '_')), below: humanize(resource) }
            : {
                text: labelOfAction(type.action),
                below: resourceLabel(type.resource.definition),
                href: `/setup/o/${slug}/data/${resource}/jobs/${id}`,
              };
        },
      },
      { title: 'State', cell: ({ state }) => jobStates[state] },
      {
        title: 'Progress',
        cell: ({ done, total }) => ({
          text: done === null || total === null ? null : `${done} of ${total}`,
          numeric: true,
        }),
      },
      {
        title: 'Started by',
        cell: ({ starter, isScheduled }) => ({ text: isScheduled ? 'Schedule' : starter }),
      },
      { title: 'Started', cell: ({ createdAt }) => ({ time: createdAt }), by: 'j.id' },
      { title: 'Finished', cell: ({ finishedAt }) => ({ time: finishedAt }) },
    ],
    empty: 'Jobs are actions that run in the background. They appear here for 7 days.',
  });
  addObjects(app, services, [jobs]);
}
