import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Fragment } from '../../engine/compile/index.ts';
import { errors } from '../../engine/errors.ts';
import { apiPrefix, authenticateAgain, json, rejectOtherMethods } from '../../engine/http/index.ts';
import {
  type Caller,
  type JobStatus,
  jobJson,
  jobsPath,
  type ModuleAction,
} from '../../engine/records/index.ts';
import { cancelVisibleJob, findJob } from './jobs.ts';
import { retentionDays } from './retention.ts';
import { isInternal } from './types.ts';

const url = `${apiPrefix}${jobsPath}/:id`;

/** Adds the routes of jobs that perform actions of modules. */
export function jobRoutes(app: FastifyInstance): void {
  const { jobs: access } = app;
  const onRequest = async (request: FastifyRequest) => {
    request.principal = await app.authenticate(request);
    request.assertAllowed = async () => {
      await authenticateAgain(app, request);
    };
  };
  const callerOf = ({ principal, id: requestId }: FastifyRequest): Caller => {
    if (principal === null) throw errors.unauthenticated();
    return { principal, requestId };
  };
  const send = (reply: FastifyReply, job: JobStatus): string => {
    reply.header('content-type', json).header('cache-control', 'no-store');
    return jobJson(job);
  };
  /** Returns the job in a URL. @throws HttpError 404 if it is not an action, does not exist, or the caller cannot see it */
  const jobOf = async (request: FastifyRequest): Promise<JobStatus> => {
    const { id } = request.params as { readonly id: string };
    const job = await findJob(access, callerOf(request), id);
    if (isInternal(job)) throw errors.notFound();
    return job;
  };
  app.get(url, { onRequest }, async (request, reply) => send(reply, await jobOf(request)));
  rejectOtherMethods(app, url, ['GET', 'HEAD']);
  app.post(`${url}/cancel`, { onRequest }, async (request, reply) => {
    const { id } = await jobOf(request);
    return send(reply, await cancelVisibleJob(access, callerOf(request), id));
  });
  rejectOtherMethods(app, `${url}/cancel`, ['POST']);
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` });
const count = (description: string) => ({ type: 'integer', minimum: 0, description });

/** Returns the OpenAPI description of jobs. It is empty if none of the instance's actions is a job. */
export function jobsFragment(actions: readonly ModuleAction[]): Fragment {
  if (!actions.some(({ job }) => job)) return {};
  const operation = (operationId: string, summary: string, description: string, success: string) => ({
    operationId,
    summary,
    description,
    tags: ['jobs'],
    parameters: [ref('parameters', 'org')],
    responses: {
      200: { description: success, content: { 'application/json': { schema: ref('schemas', 'Job') } } },
      400: ref('responses', 'BadRequest'),
      401: ref('responses', 'Unauthorized'),
      403: ref('responses', 'Forbidden'),
      404: ref('responses', 'NotFound'),
      500: ref('responses', 'Failure'),
      503: ref('responses', 'Unavailable'),
    },
  });
  const id = {
    name: 'id',
    in: 'path',
    required: true,
    description: 'ID of the job.',
    schema: { type: 'integer', format: 'int64' },
  };
  return {
    tag: { name: 'jobs', description: 'Actions that run in the background.' },
    paths: {
      [`${apiPrefix}${jobsPath}/{id}`]: {
        parameters: [id],
        get: operation(
          'getJob',
          'Get a job',
          `Returns a job that the caller started, or whose action the caller could perform on the same record. Jobs are deleted after ${retentionDays} days.`,
          'The job.',
        ),
      },
      [`${apiPrefix}${jobsPath}/{id}/cancel`]: {
        parameters: [id],
        post: operation(
          'cancelJob',
          'Cancel a job',
          'Cancels a job. A running job stops within a few seconds, and what it has already written is kept. A finished job does not change.',
          'The job. A running job is still `running`, until it has stopped.',
        ),
      },
    },
    schemas: {
      Job: {
        type: 'object',
        description: 'An action that runs in the background.',
        required: [
          ...['id', 'resource', 'action', 'record_id', 'state', 'progress', 'result', 'error'],
          ...['created_at', 'finished_at'],
        ],
        properties: {
          id: { type: 'integer', format: 'int64' },
          resource: { type: 'string' },
          action: { type: 'string', description: 'Name of the action.' },
          record_id: {
            type: ['integer', 'null'],
            format: 'int64',
            description: 'ID of the record, or null for an action of the collection.',
          },
          state: {
            type: 'string',
            description:
              '`queued` (waiting, or waiting for another attempt), `running`, `completed`, `failed` or `cancelled`.',
            enum: ['queued', 'running', 'completed', 'failed', 'cancelled'],
          },
          progress: {
            description: 'The progress of this attempt, or null if the action has not reported any.',
            anyOf: [ref('schemas', 'JobProgress'), { type: 'null' }],
          },
          result: {
            type: ['object', 'null'],
            description:
              "The action's result, or null if the job has not completed, if the result was erased, or if another caller started the job and the caller's grants are limited.",
          },
          error: {
            description: 'Why the job failed, or null if it did not fail or the caller cannot see `result`.',
            anyOf: [ref('schemas', 'Error'), { type: 'null' }],
          },
          created_at: { type: 'string', format: 'date-time' },
          finished_at: { type: ['string', 'null'], format: 'date-time' },
        },
      },
      JobProgress: {
        type: 'object',
        required: ['done', 'total'],
        properties: { done: count('Number of completed steps.'), total: count('Number of all steps.') },
      },
    },
  };
}
