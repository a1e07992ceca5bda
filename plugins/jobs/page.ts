import type { FastifyInstance, FastifyRequest } from 'fastify';
import { resourceLabel } from '../../engine/definition/index.ts';
import { humanize } from '../../engine/fields/index.ts';
import { type JobState, type JobStatus, labelOfAction, unfinishedJob } from '../../engine/records/index.ts';
import type { RowSource } from '../../engine/tables/index.ts';
import {
  addObjects,
  type DisplayValue,
  defineObject,
  exactTime,
  joinTexts,
  type Language,
  localeOf,
  type TextIn,
} from '../admin-ui/shell/index.ts';
import { jobActions } from './action-jobs.ts';
import { retentionDays } from './retention.ts';
import { nextRun } from './schedule.ts';
import { jobsTexts } from './texts/index.ts';
import { type JobServices, jobTypeOf, labelWithoutType } from './types.ts';

const { later } = jobsTexts;

/** How each state is displayed. */
const states: Readonly<Record<JobState, { readonly label: TextIn } & Pick<DisplayValue, 'state'>>> = {
  queued: { label: later('waiting'), state: 'quiet' },
  running: { label: later('running') },
  completed: { label: later('completed'), state: 'good' },
  failed: { label: later('failed'), state: 'bad' },
  cancelled: { label: later('canceled'), state: 'quiet' },
};

/** Returns a job's state as a value on a page. */
export function stateOfJob(jobState: JobState, language: Language): DisplayValue {
  const { label, state } = states[jobState];
  return { text: label(language), ...(state && { state }) };
}

/** Returns a job's progress as a value on a page. */
export function progressOfJob(
  { done, total }: NonNullable<JobStatus['progress']>,
  request: FastifyRequest,
  language: Language,
): DisplayValue {
  const count = (text: string) => BigInt(text).toLocaleString(localeOf(request));
  return { text: jobsTexts(language)('steps', { done: count(done), total: count(total) }), numeric: true };
}

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
  if (app.jobs.types.length === 0) return;
  const actions = jobActions(services.resources);
  const jobs = defineObject<JobRow, JobServices>({
    name: 'jobs',
    title: later('jobs'),
    group: 'Data',
    icon: 'clock',
    plural: later('rows'),
    source: jobRows,
    missing: (id) => later('missing', { id }),
    nameOf: ({ id }) => id,
    intro: ({ language }) => {
      const t = jobsTexts(language);
      const runs = actions.flatMap(({ action }) => {
        const time = nextRun(action);
        return time === undefined
          ? []
          : [t('nextRun', { action: labelOfAction(action), time: exactTime(time) })];
      });
      return runs.length === 0 ? undefined : joinTexts(runs);
    },
    views: {
      all: { label: later('all') },
      unfinished: { label: later('unfinished'), where: unfinishedJob },
      failed: { label: later('failed'), where: `j.state = 'failed'` },
    },
    columns: [
      {
        title: later('action'),
        cell: ({ id, resource, action }, { slug, language }) => {
          const type = jobTypeOf(app.jobs.types, { resource, action });
          return type === undefined
            ? { text: labelWithoutType({ action }), below: humanize(resource) }
            : {
                text: type.label(language),
                below: resourceLabel(type.resource.definition),
                href: `/setup/o/${slug}/data/${resource}/jobs/${id}`,
              };
        },
      },
      { title: later('state'), cell: ({ state }, { language }) => stateOfJob(state, language) },
      {
        title: later('progress'),
        cell: ({ done, total }, { request, language }) =>
          done === null || total === null ? {} : progressOfJob({ done, total }, request, language),
      },
      {
        title: later('startedBy'),
        cell: ({ starter, isScheduled }, { language }) => ({
          text: isScheduled ? jobsTexts(language)('schedule') : starter,
        }),
      },
      { title: later('started'), cell: ({ createdAt }) => ({ time: createdAt }), by: 'j.id' },
      { title: later('finished'), cell: ({ finishedAt }) => ({ time: finishedAt }) },
    ],
    empty: later('none', { days: String(retentionDays) }),
  });
  addObjects(app, services, [jobs]);
}
