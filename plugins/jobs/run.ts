import { setImmediate as requestsFirst } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { errors, type HttpError } from '../../engine/errors.ts';
import {
  actionResultJson,
  allows,
  type Caller,
  commandCaller,
  hookCaller,
  type JobAction,
  type JobContext,
  jobErrorJson,
  type ModuleAction,
  moduleError,
  organizationCustomFields,
  parseHookValues,
  placeOfAction,
  rejectOnAbort,
  reopenedRecords,
} from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { type ClaimedJob, claimJob, finishJob, type Progress, renewLease, requeueJob } from './queue.ts';
import { scheduler } from './schedule.ts';

/** Interval at which a process looks for jobs that other processes queued or left unfinished, in milliseconds. */
const pollMs = 1000;
/** Interval at which a lease is renewed and the progress is stored, in milliseconds. */
const renewMs = 1000;
/** How long a process continues a job whose lease it cannot renew, in milliseconds. Shorter than the lease. */
const maxSilenceMs = 20_000;
/** Maximum number of jobs that a process runs at the same time, each for a different organization. */
const maxConcurrent = 4;
/** Number of attempts, after which a job fails. */
const maxAttempts = 3;
/** Maximum length of a result, in characters. */
const maxResult = 1024 * 1024;

/** Default time limit of an attempt, in minutes. */
const defaultMinutes = 60;

/** Returns the time limit of an attempt, in minutes. */
const minutesOf = ({ action: { maxMinutes = defaultMinutes } }: JobType): number => maxMinutes;

/** Returns the pause after failed attempts, in seconds. */
const pauseAfter = (attempts: number): number => 2 ** (attempts - 1);

/** Reason for which a process stops running a job: it was canceled, the process stops or pauses, another process runs the job, or it took too long. */
type StopReason = 'cancelled' | 'stopping' | 'lost' | 'late';

/** Ends the access of a job to records. */
class JobStopped extends Error {
  override readonly name = 'JobStopped';
  readonly reason: StopReason;
  constructor(reason: StopReason) {
    super(`the job has ended: ${reason}`);
    this.reason = reason;
  }
}

/** Services used by jobs. */
export interface JobServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

/** An action that runs as a job, with its resource. */
interface JobType {
  readonly resource: Resource;
  readonly action: ModuleAction & JobAction;
}

/** Returns the actions that run as jobs. */
export const jobTypes = (resources: readonly Resource[]): readonly JobType[] =>
  resources.flatMap((resource) =>
    resource.actions.flatMap((action) => (action.job ? [{ resource, action }] : [])),
  );

/** Returns the action of a job; undefined if the instance does not have it. */
export const jobTypeOf = (
  types: readonly JobType[],
  job: { readonly resource: string; readonly action: string },
): JobType | undefined =>
  types.find(({ resource, action }) => resource.name === job.resource && action.name === job.action);

/**
 * Runs jobs in the background. If a process stops or crashes, another process runs its jobs again.
 * @returns a function that looks for jobs immediately
 */
export function runJobs(app: FastifyInstance, services: JobServices): () => void {
  const tables = tablesOf(services.database);
  const types = jobTypes(services.resources);
  const names = types.map(({ resource, action }) => ({ resource: resource.name, action: action.name }));
  const stopping = new AbortController();
  const isPaused = () => stopping.signal.aborted || app.isReadOnly?.() === true;
  const running = new Set<Promise<void>>();
  let isFailing = false;
  const report = (cause: unknown) => {
    // Logs the failure only once while the database is unavailable.
    if (!isFailing) app.log.warn({ err: cause }, 'failed to read or store jobs; will retry');
    isFailing = true;
  };
  const start = (job: ClaimedJob) => {
    const type = jobTypeOf(types, job);
    const work = attemptJob(app, services, { job, type, isPaused, stopping: stopping.signal })
      .catch(report)
      .finally(() => {
        running.delete(work);
        task.runNow();
      });
    running.add(work);
  };
  app.addHook('preClose', async () => {
    stopping.abort();
    await Promise.all(running);
  });
  const queueScheduled = scheduler(types, new Date());
  const task = app.background.every(app, 'jobs', pollMs, async () => {
    try {
      await queueScheduled(tables, new Date());
      while (running.size < maxConcurrent && !isPaused()) {
        const job = await claimJob(tables, names);
        if (job === undefined) break;
        if (isPaused()) {
          await requeueJob(tables, job, { pauseSeconds: 0, isCounted: false });
          break;
        }
        start(job);
      }
      isFailing = false;
    } catch (cause) {
      report(cause);
    }
  });
  return task.runNow;
}

/** A job that this process attempts. */
interface Attempt {
  readonly job: ClaimedJob;
  /** Undefined if this instance does not have the action. */
  readonly type: JobType | undefined;
  /** Returns whether the process stops, or is read-only. */
  readonly isPaused: () => boolean;
  /** Aborted when the process stops. */
  readonly stopping: AbortSignal;
}

/** Attempts a job, and stores its outcome. */
async function attemptJob(app: FastifyInstance, services: JobServices, attempt: Attempt): Promise<void> {
  const { job, type } = attempt;
  const tables = tablesOf(services.database);
  const place = placeOfAction(job.action, job.resource);
  const fail = (error: HttpError, progress?: Progress) =>
    finishJob(tables, job, { state: 'failed', error: jobErrorJson(error, job.requestId), progress });
  if (job.isCancelled) return finishJob(tables, job, { state: 'cancelled' });
  if (job.input === '') return fail(errors.rejectedByModule('The input of the job was erased', undefined));
  if (type === undefined)
    return fail(errors.rejectedByModule(`The instance no longer has ${place}`, undefined));
  const { module } = type.action;
  const moduleFailed = (reason: string, cause?: unknown) => errors.moduleFailed(module, place, reason, cause);
  if (job.attempts > maxAttempts)
    return fail(moduleFailed('the process that ran it ended unexpectedly several times'));
  const { result, progress } = await performJob(app, services, { ...attempt, type });
  if ('json' in result) return finishJob(tables, job, { state: 'completed', result: result.json, progress });
  const { cause } = result;
  if (cause instanceof JobStopped) {
    if (cause.reason === 'cancelled') return finishJob(tables, job, { state: 'cancelled', progress });
    if (cause.reason === 'stopping') return requeueJob(tables, job, { pauseSeconds: 0, isCounted: false });
    if (cause.reason === 'late')
      return fail(moduleFailed(`it took longer than ${minutesOf(type)} minutes`), progress);
    return;
  }
  const error = moduleError(cause, () => moduleFailed('it threw an error', cause));
  if (error.status < 500) return fail(error, progress);
  const { organization, id, requestId, resource, action, attempts } = job;
  app.log.error(
    { organization, job: id, request_id: requestId, resource, action, attempts, err: error.cause ?? error },
    'a job failed',
  );
  return attempts < maxAttempts
    ? requeueJob(tables, job, { pauseSeconds: pauseAfter(attempts), isCounted: true })
    : fail(error, progress);
}

/** Returns the caller of a scheduled job. The change log names the action. */
const scheduledCaller = (organization: string, module: string, action: string): Caller =>
  commandCaller(organization, {
    ...{ kind: 'command', id: null, requestId: null },
    name: `schedule of ${action} (${module})`,
  });

/** The result of an action as JSON, or the error that it threw. */
type Performed = { readonly json: string } | { readonly cause: unknown };

/** Performs the action of a job. The returned promise never rejects. */
async function performJob(
  app: FastifyInstance,
  { database, resources }: JobServices,
  { job, type, isPaused, stopping }: Attempt & { readonly type: JobType },
): Promise<{ readonly result: Performed; readonly progress: Progress | undefined }> {
  const { resource, action } = type;
  const tables = tablesOf(database);
  const { module, grant } = action;
  const controller = new AbortController();
  const { signal } = controller;
  const stop = (reason: StopReason) => controller.abort(new JobStopped(reason));
  const stopNow = () => stop('stopping');
  stopping.addEventListener('abort', stopNow);
  const limit = setTimeout(() => stop('late'), minutesOf(type) * 60_000).unref();
  let progress: Progress | undefined;
  let renewedAt = performance.now();
  const renew = async (): Promise<void> => {
    if (isPaused()) return stopNow();
    const start = performance.now();
    const lease = await renewLease(tables, job, progress);
    renewedAt = start;
    if (lease === undefined) stop('lost');
    else if (lease.isCancelled) stop('cancelled');
  };
  let renewal: Promise<void> | undefined;
  const heartbeat = setInterval(() => {
    if (performance.now() - renewedAt > maxSilenceMs) stop('lost');
    renewal ??= renew()
      .catch(() => {})
      .finally(() => {
        renewal = undefined;
      });
  }, renewMs).unref();

  /** Returns the caller with its current grants. @throws HttpError 401 or 403 if it can no longer perform the action */
  const currentCaller = async () => {
    const principal =
      job.caller.kind === 'command'
        ? scheduledCaller(job.organization, module, action.name).principal
        : await app.principalAgain(job.caller);
    if (principal === undefined) throw errors.unauthenticated();
    if (!allows(principal.grants, resource.definition, grant)) throw errors.forbidden(resource.name, grant);
    const caller: Caller = { principal, requestId: job.requestId };
    const customFields = await organizationCustomFields(database, resources, job.organization);
    const compiled = resource.viewFor(principal.grants).actionNamed(module, action.name);
    return { input: { caller, customFields }, compiled };
  };

  let last: Promise<unknown> = Promise.resolve();
  /** Runs work after all previous work, unless the job has ended or another process runs it. */
  const afterPrevious = <T>(work: () => Promise<T>): Promise<T> => {
    const result = last.then(async () => {
      // The embedded database responds within the same iteration of the event loop, so a job that consists of many transactions
      // would keep the process from reading requests.
      await requestsFirst();
      if (!signal.aborted && performance.now() - renewedAt > renewMs) await renew();
      signal.throwIfAborted();
      return work();
    });
    last = result.catch(() => {});
    return result;
  };
  const transaction: JobContext['transaction'] = (work) =>
    afterPrevious(async () => {
      const { input, compiled } = await currentCaller();
      return compiled.runPart(database, input, work);
    });
  const perform = async (): Promise<string> => {
    const { input, compiled } = await currentCaller();
    const record =
      job.recordId === null ? undefined : await compiled.readRecord(database, input, job.recordId);
    const result = await action.run({
      caller: hookCaller(input.caller),
      input: parseHookValues(new Map(), job.input),
      id: job.recordId === null ? undefined : BigInt(job.recordId),
      record,
      jobId: BigInt(job.id),
      attempt: job.attempts,
      records: reopenedRecords(transaction),
      transaction,
      progress: (done, total) => {
        progress = checkedProgress(done, total);
      },
      signal,
    });
    const place = placeOfAction(action.name, resource.name);
    const json = actionResultJson(module, place, result);
    if (json.length > maxResult)
      throw errors.moduleFailed(module, place, `its result is longer than ${maxResult}`);
    return json;
  };
  const result: Performed = await Promise.race([perform(), rejectOnAbort(signal)]).then(
    (json) => ({ json }),
    (cause: unknown) => ({ cause: signal.aborted ? signal.reason : cause }),
  );
  clearInterval(heartbeat);
  clearTimeout(limit);
  stopping.removeEventListener('abort', stopNow);
  // Work that the action did not await, or that was running when the job was stopped, must not continue after it.
  stop('lost');
  await last;
  await renewal;
  return { result, progress };
}

/** Returns reported progress. @throws TypeError if it does not consist of whole numbers */
function checkedProgress(done: number, total: number): Progress {
  if (![done, total].every((count) => Number.isSafeInteger(count) && count >= 0))
    throw new TypeError('progress expects two whole numbers: how many of how many steps are done');
  return { done, total };
}
