import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import { errors, type HttpError } from '../../engine/errors.ts';
import { allows, labelOfAction, type Principal } from '../../engine/records/index.ts';
import type { TextIn } from '../admin-ui/shell/index.ts';
import type { ClaimedJob, Progress } from './queue.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Access to the jobs of the instance. */
    jobs: JobAccess;
  }
}

/** Services used by jobs. */
export interface JobServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly config: { readonly audit: boolean };
}

/** What is needed to access jobs. */
export interface JobAccess {
  readonly database: Database;
  readonly resources: readonly Resource[];
  /** All types of jobs. Modules add theirs when they are registered. */
  readonly types: JobType[];
  /** Whether cancellations are recorded in the change log. */
  readonly audited: boolean;
}

/** A job that this process runs, for the code that performs it. */
export interface RunningJob {
  readonly job: ClaimedJob;
  /** Aborted when the job is canceled, takes too long, is run by another process, or when the process stops. */
  readonly signal: AbortSignal;
  /**
   * Runs a step after all previous ones, so that requests are read between them.
   * @throws the signal's reason if the job must stop before the step
   */
  readonly step: <T>(work: () => T | Promise<T>) => Promise<T>;
  /**
   * Reports the progress.
   * @param partialResult returns the result so far as JSON, which is stored if the job is canceled or fails
   */
  readonly report: (progress: Progress, partialResult?: () => string) => void;
}

/**
 * Why a job that did not throw an error failed: its process ended unexpectedly in the last attempt, the process stopped, or it took
 * too long.
 */
export type FailureReason = 'killed' | 'stopped' | 'late';

/** A type of job: an action of a module, or work of another part of the instance. */
export interface JobType {
  readonly resource: Resource;
  /** Name of the action, or a name that starts with {@link internalPrefix}. */
  readonly name: string;
  readonly label: TextIn;
  /** The grant on the resource with which callers can see and cancel the jobs of others. */
  readonly grant: string;
  /** Time limit of an attempt, in minutes. */
  readonly maxMinutes: number;
  /** Number of attempts, after which a job fails. A job with one attempt fails if its process stops after the first step. */
  readonly maxAttempts: number;
  /** How long a job can continue when its process stops, in milliseconds. */
  readonly graceMs: number;
  /**
   * Whether a stopped job ends immediately. Otherwise it ends when `run` does, for example after the current statement, and each
   * step begins by checking that the job was neither canceled nor erased.
   */
  readonly isInterruptible: boolean;
  /** Performs the job. @returns the result as JSON, at most {@link maxResult} characters */
  readonly run: (running: RunningJob) => Promise<string>;
  /** Returns the error of a job that failed without an error of its own. */
  readonly failure: (reason: FailureReason, progress: Progress | undefined) => HttpError;
  /** Serializes an error as JSON. */
  readonly errorJson: (error: HttpError, requestId: string) => string;
}

/**
 * Returns a job's caller, if it still exists and can perform actions on a resource.
 * @throws HttpError 401 or 403 otherwise
 */
export function permittedCaller(
  principal: Principal | undefined,
  { name, definition }: Resource,
  actions: readonly string[],
): Principal {
  if (principal === undefined) throw errors.unauthenticated();
  for (const action of actions)
    if (!allows(principal.grants, definition, action)) throw errors.forbidden(name, action);
  return principal;
}

/** Maximum length of a result, in characters. */
export const maxResult = 1024 * 1024;

/** Start of the names of job types that are not actions of modules. Names of actions cannot contain it. */
const internalPrefix = ':';

/** Returns the name of a job type that is not an action of a module. Its jobs are not part of the API. */
export const internalName = (name: string): string => `${internalPrefix}${name}`;

/** Returns whether a job is not an action of a module. */
export const isInternal = ({ action }: { readonly action: string }): boolean =>
  action.startsWith(internalPrefix);

/** Returns the type of a job; undefined if the instance does not have it. */
export const jobTypeOf = (
  types: readonly JobType[],
  job: { readonly resource: string; readonly action: string },
): JobType | undefined =>
  types.find(({ resource, name }) => resource.name === job.resource && name === job.action);

/** Returns the place of a job in the output of commands. */
export const placeOfJob = (job: { readonly action: string; readonly resource: string }): string =>
  `${isInternal(job) ? job.action.slice(internalPrefix.length) : `action ${job.action}`} of ${job.resource}`;

/** Returns the label of a type that the instance no longer has. */
export const labelWithoutType = ({ action }: { readonly action: string }): string =>
  labelOfAction({ name: action.replace(internalPrefix, '') });
