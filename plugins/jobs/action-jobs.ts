import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../engine/compile/index.ts';
import { errors } from '../../engine/errors.ts';
import {
  actionResultJson,
  type Caller,
  commandCaller,
  hookCaller,
  type JobAction,
  type JobContext,
  jobErrorJson,
  labelOfAction,
  type ModuleAction,
  moduleError,
  organizationCustomFields,
  parseHookValues,
  placeOfAction,
  reopenedRecords,
} from '../../engine/records/index.ts';
import { ownWords } from '../admin-ui/shell/index.ts';
import type { Progress } from './queue.ts';
import {
  type FailureReason,
  type JobServices,
  type JobType,
  maxResult,
  permittedCaller,
  type RunningJob,
} from './types.ts';

/** Default time limit of an attempt, in minutes. */
const defaultMinutes = 60;
/** Number of attempts, after which a job fails. */
const maxAttempts = 3;

/** An action that runs as a job, with its resource. */
export interface ActionOfResource {
  readonly resource: Resource;
  readonly action: ModuleAction & JobAction;
}

/** Returns the actions that run as jobs. */
export const jobActions = (resources: readonly Resource[]): readonly ActionOfResource[] =>
  resources.flatMap((resource) =>
    resource.actions.flatMap((action) => (action.job ? [{ resource, action }] : [])),
  );

/** Returns the types of the jobs that perform actions of modules. */
export const actionJobTypes = (app: FastifyInstance, services: JobServices): readonly JobType[] =>
  jobActions(services.resources).map(({ resource, action }) => {
    const { module, name, grant, maxMinutes = defaultMinutes } = action;
    const failures: Readonly<Record<FailureReason, string>> = {
      killed: 'the process that ran it ended unexpectedly several times',
      stopped: 'the process that ran it was stopped',
      late: `it took longer than ${maxMinutes} minutes`,
    };
    return {
      ...{ resource, name, grant, maxMinutes, maxAttempts },
      label: () => ownWords(labelOfAction(action)),
      graceMs: 0,
      isInterruptible: true,
      run: (running) => performAction(app, services, { resource, action }, running),
      failure: (reason) => errors.moduleFailed(module, placeOfAction(name, resource.name), failures[reason]),
      errorJson: jobErrorJson,
    };
  });

/** Returns the caller of a scheduled job. The change log names the action. */
const scheduledCaller = (organization: string, module: string, action: string): Caller =>
  commandCaller(organization, {
    ...{ kind: 'command', id: null, requestId: null },
    name: `schedule of ${action} (${module})`,
  });

/** Performs an action. @returns its result as JSON. @throws HttpError for any failure */
async function performAction(
  app: FastifyInstance,
  { database, resources }: JobServices,
  { resource, action }: ActionOfResource,
  { job, signal, step, report }: RunningJob,
): Promise<string> {
  const { module, grant } = action;
  const place = placeOfAction(action.name, resource.name);
  /** Returns the caller with its current grants. @throws HttpError 401 or 403 if it can no longer perform the action */
  const currentCaller = async () => {
    const starter =
      job.caller.kind === 'command'
        ? scheduledCaller(job.organization, module, action.name).principal
        : await app.principalAgain(job.caller);
    const principal = permittedCaller(starter, resource, [grant]);
    const caller: Caller = { principal, requestId: job.requestId };
    const customFields = await organizationCustomFields(database, resources, job.organization);
    const compiled = resource.viewFor(principal.grants).actionNamed(module, action.name);
    return { input: { caller, customFields }, compiled };
  };
  const transaction: JobContext['transaction'] = (work) =>
    step(async () => {
      const { input, compiled } = await currentCaller();
      return compiled.runPart(database, input, work);
    });
  try {
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
      progress: (done, total) => report(checkedProgress(done, total)),
      signal,
    });
    const json = actionResultJson(module, place, result);
    if (json.length > maxResult)
      throw errors.moduleFailed(module, place, `its result is longer than ${maxResult}`);
    return json;
  } catch (cause) {
    throw moduleError(cause, () => errors.moduleFailed(module, place, 'it threw an error', cause));
  }
}

/** Returns reported progress. @throws TypeError if it does not consist of whole numbers */
function checkedProgress(done: number, total: number): Progress {
  if (![done, total].every((count) => Number.isSafeInteger(count) && count >= 0))
    throw new TypeError('progress expects two whole numbers: how many of how many steps are done');
  return { done, total };
}
