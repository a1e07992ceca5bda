import { sql } from 'kysely';
import { violatedConstraint } from '../../engine/database/index.ts';
import {
  type CallerIdentity,
  type JobState,
  runningJobIndex,
  unfinishedJob,
} from '../../engine/records/index.ts';
import { arrayText } from '../../engine/sql/index.ts';
import type { Tables } from '../../engine/tables/index.ts';

/** How long a process keeps a job that it runs, unless it renews its lease, in seconds. */
const leaseSeconds = 30;
/** How long a job waits for a process that has its type, in minutes. Then it fails. */
const unknownMinutes = 60;

/** A job that this process runs until its lease expires. */
export interface ClaimedJob {
  readonly organization: string;
  readonly id: string;
  readonly resource: string;
  readonly action: string;
  /** ID of the record; null for an action of the collection. */
  readonly recordId: string | null;
  /** The body, as JSON. Empty if it was erased. */
  readonly input: string;
  readonly caller: CallerIdentity;
  /** ID of the request that started the job. */
  readonly requestId: string;
  /** Number of attempts, including this one. */
  readonly attempts: number;
  readonly isCancelled: boolean;
  /** The last progress that the previous attempt stored. */
  readonly progress: Progress | undefined;
}

/** The reported progress. */
export interface Progress {
  readonly done: number;
  readonly total: number;
}

/** A type of job, by the name of its resource and its own. */
interface TypeName {
  readonly resource: { readonly name: string };
  readonly name: string;
}

/**
 * Claims the job that has been due for the longest time: a queued one, if its organization does not run another one, or one whose
 * process no longer renews its lease. Returns undefined if no job is due.
 * @param types the types of jobs of this instance
 */
export async function claimJob(tables: Tables, types: readonly TypeName[]): Promise<ClaimedJob | undefined> {
  const [resources, names] = [types.map(({ resource }) => resource.name), types.map(({ name }) => name)];
  try {
    const { rows } = await sql<
      Omit<ClaimedJob, 'caller' | 'progress'> & {
        readonly kind: CallerIdentity['kind'];
        readonly actor: string | null;
        readonly done: string | null;
        readonly total: string | null;
      }
    >`with due as (
        select j.organization_id, j.id, j.done, j.total from crm_jobs j
        where ${sql.raw(unfinishedJob)} and j.due_at <= now()
          and (j.state = 'running' or not exists (
            select from crm_jobs o where o.organization_id = j.organization_id and o.state = 'running'))
          and (j.due_at < now() - ${sql.lit(unknownMinutes)} * interval '1 minute' or exists (
            select from unnest(${arrayText(resources)}::text[], ${arrayText(names)}::text[]) a(resource, action)
            where a.resource = j.resource and a.action = j.action))
        order by j.due_at, j.id limit 1 for update of j skip locked)
      update crm_jobs j set state = 'running', attempts = j.attempts + 1, done = null, total = null,
        due_at = now() + ${sql.lit(leaseSeconds)} * interval '1 second'
      from due where j.organization_id = due.organization_id and j.id = due.id
      returning j.organization_id::text as organization, j.id::text as id, j.resource, j.action, j.record_id::text as "recordId",
        j.input, j.caller_kind as kind, j.caller_id::text as actor, j.request_id as "requestId", j.attempts,
        j.cancel_requested as "isCancelled", due.done::text as done, due.total::text as total`.execute(
      tables,
    );
    const [row] = rows;
    if (row === undefined) return undefined;
    const { kind, actor, done, total, ...job } = row;
    return {
      ...job,
      caller: { kind, actor, organization: job.organization },
      progress: done === null || total === null ? undefined : { done: Number(done), total: Number(total) },
    };
  } catch (cause) {
    // Another process has just started a job of the organization.
    if (violatedConstraint(cause) === runningJobIndex) return undefined;
    throw cause;
  }
}

/** Returns the SQL condition that this process still runs a job. Another attempt has another number. */
const isRun = ({ organization, id, attempts }: ClaimedJob) =>
  sql`organization_id = ${organization}::bigint and id = ${id}::bigint and attempts = ${attempts}::int and state = 'running'`;

const progressOf = (progress: Progress | undefined) =>
  sql`done = ${progress?.done ?? null}::bigint, total = ${progress?.total ?? null}::bigint`;

/** Renews the lease of a job, and stores its progress. Returns undefined if another process runs the job, or it was erased. */
export async function renewLease(
  tables: Tables,
  job: ClaimedJob,
  progress: Progress | undefined,
): Promise<{ readonly isCancelled: boolean } | undefined> {
  const { rows } = await sql<{ readonly isCancelled: boolean }>`
    update crm_jobs set ${progressOf(progress)}, due_at = now() + ${sql.lit(leaseSeconds)} * interval '1 second'
    where ${isRun(job)} and input <> '' returning cancel_requested as "isCancelled"`.execute(tables);
  return rows[0];
}

/** The end of a job. */
export interface JobOutcome {
  readonly state: Exclude<JobState, 'queued' | 'running'>;
  readonly progress?: Progress | undefined;
  /** The result or the error, as JSON. */
  readonly result?: string | undefined;
  readonly error?: string;
}

/** Finishes a job. If its input was erased while it ran, only its state is stored, because the result and the error could contain the same data. */
export const finishJob = async (
  tables: Tables,
  job: ClaimedJob,
  { state, progress, result = '', error = '' }: JobOutcome,
): Promise<void> => {
  const isErased = sql`input = '' and ${job.input !== ''}::boolean`;
  const unlessErased = (text: string) => sql`case when ${isErased} then '' else ${text}::text end`;
  await sql`update crm_jobs set state = ${state}, finished_at = now(), ${progressOf(progress)}, input = '',
    result = ${unlessErased(result)}, error = ${unlessErased(error)} where ${isRun(job)}`.execute(tables);
};

/**
 * Queues a job again.
 * @param options `pauseSeconds` is the time until the next attempt; `isCounted` is false if the attempt did not fail
 */
export const requeueJob = async (
  tables: Tables,
  job: ClaimedJob,
  { pauseSeconds, isCounted }: { readonly pauseSeconds: number; readonly isCounted: boolean },
): Promise<void> => {
  await sql`update crm_jobs set state = 'queued', due_at = now() + ${pauseSeconds}::int * interval '1 second',
    attempts = attempts - ${isCounted ? 0 : 1}::int where ${isRun(job)}`.execute(tables);
};

/** Cancels a queued job, or requests it if the job is running. Finished jobs do not change. Returns whether the job was not finished. */
export async function cancelJob(tables: Tables, organization: string, id: string): Promise<boolean> {
  const isQueued = sql`state = 'queued'`;
  const { numAffectedRows = 0n } = await sql`
    update crm_jobs set cancel_requested = true, state = case when ${isQueued} then 'cancelled' else state end,
      finished_at = case when ${isQueued} then now() end, input = case when ${isQueued} then '' else input end
    where organization_id = ${organization}::bigint and id = ${id}::bigint and ${sql.raw(unfinishedJob)}`.execute(
    tables,
  );
  return numAffectedRows > 0n;
}
