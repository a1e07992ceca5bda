import { setTimeout as pause, setImmediate as requestsFirst } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type Database, failureDetails } from '../../engine/database/index.ts';
import { type ErrorCode, errors, HttpError } from '../../engine/errors.ts';
import { repeatedWork } from '../../engine/modules/index.ts';
import { jobErrorJson, placeOfAction, rejectOnAbort } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import type { ActionOfResource } from './action-jobs.ts';
import {
  type ClaimedJob,
  claimJob,
  finishJob,
  type JobOutcome,
  type Progress,
  renewLease,
  requeueJob,
} from './queue.ts';
import { scheduler } from './schedule.ts';
import { type JobType, jobTypeOf } from './types.ts';

/**
 * Interval at which a process looks for jobs that other processes queued or left unfinished, in milliseconds. On instances without
 * actions that run as jobs, only imports of killed processes are found this way.
 */
const [pollMs, idlePollMs] = [1000, 5000];
/** Interval at which a lease is renewed and the progress is stored, in milliseconds. */
const renewMs = 1000;
/** How long a process continues a job whose lease it cannot renew, in milliseconds. Shorter than the lease. */
const maxSilenceMs = 20_000;
/** Maximum number of jobs that a process runs at the same time, each for a different organization. */
const maxConcurrent = 4;

/** Errors of statements that were not run or were rolled back. A job that cannot be repeated waits if nothing else was written. */
const waitingCodes: readonly ErrorCode[] = ['overloaded', 'read_only'];
/** Time until the next attempt of a waiting job, in seconds. */
const waitingSeconds = 5;

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

/**
 * Runs jobs of all types in `app.jobs` in the background. If a process stops or crashes, another process
 * finishes its jobs.
 * @param actions the actions that run as jobs, some of which can have a schedule
 * @returns a function that looks for jobs immediately
 */
export function runJobs(app: FastifyInstance, actions: readonly ActionOfResource[]): () => void {
  const { database } = app.jobs;
  const tables = tablesOf(database);
  const stopping = new AbortController();
  const isReadOnly = () => app.isReadOnly?.() === true;
  const isPaused = () => stopping.signal.aborted || isReadOnly();
  const running = new Set<Promise<void>>();
  let isFailing = false;
  const report = (cause: unknown) => {
    // Logs the failure only once while the database is unavailable.
    if (!isFailing) app.log.warn(failureDetails(cause), 'failed to read or store jobs; will retry');
    isFailing = true;
  };
  const start = (job: ClaimedJob) => {
    const type = jobTypeOf(app.jobs.types, job);
    const work = attemptJob(app, database, { job, type, isReadOnly, stopping: stopping.signal })
      .catch(report)
      .finally(() => {
        running.delete(work);
        task.runNow();
      });
    running.add(work);
  };
  const queueScheduled = scheduler(actions, new Date());
  const claim = async (): Promise<void> => {
    try {
      await queueScheduled(tables, new Date());
      while (running.size < maxConcurrent && !isPaused()) {
        const job = await claimJob(tables, app.jobs.types);
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
  };
  const claiming = repeatedWork(claim, isPaused);
  const task = app.background.every(app, 'jobs', actions.length > 0 ? pollMs : idlePollMs, claiming.wake);
  app.addHook('preClose', async () => {
    stopping.abort();
    await claiming.ended();
    await Promise.all(running);
  });
  return task.runNow;
}

/** A job that this process attempts. */
interface Attempt {
  readonly job: ClaimedJob;
  /** Undefined if this instance does not have the type. */
  readonly type: JobType | undefined;
  readonly isReadOnly: () => boolean;
  /** Aborted when the process stops. */
  readonly stopping: AbortSignal;
}

/** Stores the outcome of a job, and tries again as long as no other process can run the job. */
async function storeOutcome(stopping: AbortSignal, store: () => Promise<void>): Promise<void> {
  const end = performance.now() + maxSilenceMs;
  for (;;) {
    try {
      return await store();
    } catch (cause) {
      if (stopping.aborted || performance.now() > end) throw cause;
    }
    await pause(renewMs);
  }
}

/** Attempts a job, and stores its outcome. */
async function attemptJob(app: FastifyInstance, database: Database, attempt: Attempt): Promise<void> {
  const { job, type } = attempt;
  const tables = tablesOf(database);
  const finish = (outcome: JobOutcome) =>
    storeOutcome(attempt.stopping, () => finishJob(tables, job, outcome));
  const fail = (error: HttpError, more: Pick<JobOutcome, 'progress' | 'result'> = {}) =>
    finish({
      state: 'failed',
      error: (type?.errorJson ?? jobErrorJson)(error, job.requestId),
      ...more,
    });
  if (job.isCancelled) return finish({ state: 'cancelled' });
  if (job.input === '') return fail(errors.jobInputErased());
  if (type === undefined) {
    const place = placeOfAction(job.action, job.resource);
    return fail(errors.rejectedByModule(`The instance no longer has ${place}`, undefined));
  }
  const { maxAttempts } = type;
  if (job.attempts > maxAttempts) {
    const { progress } = job;
    return fail(type.failure('killed', progress), { progress });
  }
  const { outcome, progress, partialResult } = await performJob(database, { ...attempt, type });
  if ('json' in outcome) return finish({ state: 'completed', result: outcome.json, progress });
  const { cause } = outcome;
  const details = { progress, result: partialResult };
  const isUntouched = (progress?.done ?? 0) === 0;
  if (cause instanceof JobStopped) {
    if (cause.reason === 'cancelled') return finish({ state: 'cancelled', ...details });
    if (cause.reason === 'late') return fail(type.failure('late', progress), details);
    if (cause.reason === 'lost') return;
    return maxAttempts > 1 || isUntouched
      ? requeueJob(tables, job, { pauseSeconds: 0, isCounted: false })
      : fail(type.failure('stopped', progress), details);
  }
  const error = cause instanceof HttpError ? cause : errors.internal(cause);
  if (error.status < 500) return fail(error, details);
  if (maxAttempts === 1 && isUntouched && waitingCodes.includes(error.code))
    return requeueJob(tables, job, { pauseSeconds: waitingSeconds, isCounted: false });
  const { organization, id, requestId, resource, action, attempts } = job;
  app.log.error(
    { organization, job: id, request_id: requestId, resource, action, attempts, err: error.cause ?? error },
    'a job failed',
  );
  return attempts < maxAttempts
    ? requeueJob(tables, job, { pauseSeconds: pauseAfter(attempts), isCounted: true })
    : fail(error, details);
}

/** How an attempt ended. */
interface Performed {
  /** The result as JSON, or the error of the job. */
  readonly outcome: { readonly json: string } | { readonly cause: unknown };
  readonly progress: Progress | undefined;
  /** The last reported partial result, as JSON. */
  readonly partialResult: string | undefined;
}

/** Performs a job. The returned promise never rejects. */
async function performJob(
  database: Database,
  { job, type, isReadOnly, stopping }: Attempt & { readonly type: JobType },
): Promise<Performed> {
  const tables = tablesOf(database);
  const controller = new AbortController();
  const { signal } = controller;
  const stop = (reason: StopReason) => controller.abort(new JobStopped(reason));
  const stopNow = () => stop('stopping');
  let grace: NodeJS.Timeout | undefined;
  const stopSoon = () => {
    if (type.graceMs === 0) stopNow();
    else grace = setTimeout(stopNow, type.graceMs);
  };
  stopping.addEventListener('abort', stopSoon);
  const limit = setTimeout(() => stop('late'), type.maxMinutes * 60_000).unref();
  let progress: Progress | undefined;
  let partialResult: (() => string) | undefined;
  let renewedAt = performance.now();
  const renew = async (): Promise<void> => {
    if (isReadOnly()) return stopNow();
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
  let last: Promise<unknown> = Promise.resolve();
  const step = <T>(work: () => T | Promise<T>): Promise<T> => {
    const result = last.then(async () => {
      // The embedded database responds within the same iteration of the event loop, so a job that consists of many transactions
      // would keep the process from reading requests.
      await requestsFirst();
      const isDue = !type.isInterruptible || performance.now() - renewedAt > renewMs;
      if (!signal.aborted && isDue) await renew();
      signal.throwIfAborted();
      return work();
    });
    last = result.catch(() => {});
    return result;
  };
  const work = type.run({
    ...{ job, signal, step },
    report: (reported, result) => {
      progress = reported;
      partialResult = result;
    },
  });
  const outcome = await (type.isInterruptible ? Promise.race([work, rejectOnAbort(signal)]) : work).then(
    (json) => ({ json }),
    (cause: unknown) => ({ cause: type.isInterruptible && signal.aborted ? signal.reason : cause }),
  );
  clearInterval(heartbeat);
  clearTimeout(limit);
  clearTimeout(grace);
  stopping.removeEventListener('abort', stopSoon);
  // Steps that `run` did not await, or that were running when the job was stopped, must not continue after it.
  stop('lost');
  await last;
  await renewal;
  return { outcome, progress, partialResult: partialResult?.() };
}
