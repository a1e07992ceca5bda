import type { Generated } from 'kysely';
import { errorJson, errors, type HttpError } from '../errors.ts';
import { parseOwnJson } from '../fields/index.ts';
import { cell, prepare, rowDecoder } from '../sql/index.ts';
import {
  bigintColumn,
  booleanColumn,
  defineTable,
  identity,
  integerColumn,
  now,
  tenant,
  textColumn,
  timestampColumn,
} from '../tables/index.ts';
import type { TransactionExecutor } from './executor.ts';
import type { OperationPlan } from './operation.ts';
import { organizationOf } from './rows.ts';

/** A job's state. A queued job has not started, or will be attempted again. The last three states are final. */
export type JobState = 'queued' | 'running' | 'completed' | 'failed' | 'cancelled';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_jobs: {
      organization_id: string;
      id: Generated<string>;
      resource: string;
      action: string;
      /** ID of the record; null for an action of the collection. */
      record_id: string | null;
      /** The body, as JSON. Empty once the job is finished, or if it was erased. */
      input: string;
      state: Generated<JobState>;
      /** The caller that started the job. */
      caller_kind: string;
      caller_id: string | null;
      request_id: string;
      /** Number of attempts, including the current one. */
      attempts: Generated<number>;
      /** When a queued job can start, and when the lease of a running one expires. */
      due_at: Generated<Date>;
      cancel_requested: Generated<boolean>;
      /** The progress that the action has reported: how many of how many steps are done. */
      done: string | null;
      total: string | null;
      /** The result or the error, as JSON; empty if it does not exist or was erased. */
      result: Generated<string>;
      error: Generated<string>;
      /** The time in the action's schedule that started the job; null if a caller started it. */
      scheduled_for: Date | null;
      created_at: Generated<Date>;
      finished_at: Date | null;
    };
  }
}

/** SQL condition that a job is not finished. */
export const unfinishedJob = `"state" in ('queued', 'running')`;

/** Unique index that prevents an organization from running two jobs at the same time. */
export const runningJobIndex = 'crm_jobs_running';

const jobs = defineTable(
  'crm_jobs',
  {
    ...tenant(),
    id: identity,
    resource: textColumn,
    action: textColumn,
    record_id: { ...bigintColumn, nullable: true },
    input: textColumn,
    state: { ...textColumn, defaultRaw: "'queued'" },
    caller_kind: textColumn,
    caller_id: { ...bigintColumn, nullable: true },
    request_id: textColumn,
    attempts: { ...integerColumn, defaultRaw: '0' },
    due_at: now,
    cancel_requested: { ...booleanColumn, defaultRaw: 'false' },
    done: { ...bigintColumn, nullable: true },
    total: { ...bigintColumn, nullable: true },
    result: { ...textColumn, defaultRaw: "''" },
    error: { ...textColumn, defaultRaw: "''" },
    scheduled_for: { ...timestampColumn, nullable: true },
    created_at: now,
    finished_at: { ...timestampColumn, nullable: true },
  },
  {
    indexes: [
      { name: 'crm_jobs_due', keys: ['"due_at"'], where: unfinishedJob },
      { name: runningJobIndex, keys: ['"organization_id"'], kind: 'unique', where: `"state" = 'running'` },
      // Counts an organization's waiting jobs.
      { name: 'crm_jobs_queued', keys: ['"organization_id"'], where: `"state" = 'queued'` },
      { name: 'crm_jobs_created', keys: ['"created_at"'] },
      {
        name: 'crm_jobs_scheduled',
        kind: 'unique',
        keys: ['"organization_id"', '"resource"', '"action"', '"scheduled_for"'],
        where: '"scheduled_for" is not null',
      },
    ],
    resourceColumns: ['resource'],
    personalData: { label: 'jobs', columns: ['input', 'result', 'error'], erasure: 'clear' },
    // The statement that claims jobs reads those of all organizations.
    placement: 'coordinator',
  },
);

/** The tables of jobs. */
export const jobTables = [jobs];

/** Maximum number of queued jobs per organization. */
const maxQueuedJobs = 10;

/** Path of the jobs, relative to the API. */
export const jobsPath = '/jobs';

/** A job, as described to callers. */
export interface JobStatus {
  readonly id: string;
  readonly resource: string;
  readonly action: string;
  /** ID of the record; null for an action of the collection. */
  readonly recordId: string | null;
  readonly state: JobState;
  /** The reported progress, as decimal text; null if the action has not reported any. */
  readonly progress: { readonly done: string; readonly total: string } | null;
  /** The result as JSON; empty if it does not exist, or if the caller cannot see it. */
  readonly result: string;
  /** The error as JSON, as in the body of an error response. */
  readonly error: string;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

/** Returns a job as the JSON of the API. IDs are inserted as text, because they can exceed JavaScript's safe integer range. */
export function jobJson(job: JobStatus): string {
  const { progress, createdAt, finishedAt } = job;
  const properties: Readonly<Record<string, string>> = {
    id: job.id,
    resource: JSON.stringify(job.resource),
    action: JSON.stringify(job.action),
    record_id: job.recordId ?? 'null',
    state: JSON.stringify(job.state),
    progress: progress === null ? 'null' : `{"done":${progress.done},"total":${progress.total}}`,
    result: job.result || 'null',
    error: job.error || 'null',
    created_at: JSON.stringify(createdAt),
    finished_at: JSON.stringify(finishedAt),
  };
  const members = Object.entries(properties).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  return `{${members.join(',')}}`;
}

/** Returns the ID in the JSON of a job, as decimal text. */
export const idOfJob = (json: string): string => String((parseOwnJson(json) as { readonly id: unknown }).id);

/** Returns an error as the JSON of a job. @param requestId ID of the request that started the job */
export const jobErrorJson = (error: HttpError, requestId: string): string =>
  errorJson(error, { request_id: requestId });

/** A plan that queues a job. */
interface QueuePlan extends OperationPlan {
  readonly resource: string;
  readonly action: string;
  /** ID of the record; undefined for an action of the collection. */
  readonly id: string | undefined;
  /** The body, as JSON. */
  readonly input: string;
}

const lock = prepare<OperationPlan>(
  '',
  'write',
  ($) =>
    `select pg_advisory_xact_lock(hashtextextended(${$(({ organization }) => JSON.stringify(['jobs', organization]))}::text, 0))::text`,
);

const insert = prepare<QueuePlan>('', 'write', ($) => {
  const organization = organizationOf($);
  const values = [
    organization,
    `${$(({ resource }) => resource)}::text`,
    `${$(({ action }) => action)}::text`,
    `${$(({ id }) => id ?? null)}::bigint`,
    `${$(({ input }) => input)}::text`,
    `${$(({ caller: { principal } }) => principal.kind)}::text`,
    `${$(({ caller: { principal } }) => principal.actor)}::bigint`,
    `${$(({ caller: { requestId } }) => requestId)}::text`,
  ];
  return `insert into "crm_jobs" ("organization_id", "resource", "action", "record_id", "input", "caller_kind", "caller_id", "request_id") select ${values.join(', ')} where (select count(*) from "crm_jobs" j where j."organization_id" = ${organization} and j."state" = 'queued') < ${maxQueuedJobs} returning "id"::text, floor(extract(epoch from "created_at") * 1000)::text`;
});

const decodeInserted = rowDecoder({ id: cell.text, createdMs: cell.text });

/**
 * Queues a job in a transaction, and returns it as JSON.
 * @throws HttpError 429 if too many of the organization's jobs are queued
 */
export async function queueJob(executor: TransactionExecutor, plan: QueuePlan): Promise<string> {
  // A separate statement, so that the insert sees the jobs that other transactions queued before the lock was free.
  await executor.run(lock.bind(plan));
  const [row] = await executor.run(insert.bind(plan));
  if (row === undefined) throw errors.tooManyJobs(maxQueuedJobs);
  const { id, createdMs } = decodeInserted(row);
  return jobJson({
    id,
    resource: plan.resource,
    action: plan.action,
    recordId: plan.id ?? null,
    state: 'queued',
    progress: null,
    result: '',
    error: '',
    createdAt: new Date(Number(createdMs)),
    finishedAt: null,
  });
}
