import type { Worker } from 'node:cluster';
import { UserError } from '../../engine/errors.ts';
import type { Demo } from '../../plugins/operations/demo/index.ts';
import type { FamilyValues, ProcessReport } from '../../plugins/operations/monitoring/index.ts';

/** Messages from the supervisor to a worker. */
export type SupervisorMessage =
  /** Starts background work. The first worker also creates the demo organization in an empty database. */
  | { readonly kind: 'lead'; readonly isFirst: boolean }
  /** Runs a background task. */
  | { readonly kind: 'task'; readonly name: string }
  /** Requests an immediate response to detect hung workers. */
  | { readonly kind: 'ping' }
  /** Requests a readiness report. */
  | { readonly kind: 'report'; readonly number: number }
  /** Requests metrics, including instance-wide metrics if `ofInstance` is set. */
  | { readonly kind: 'metrics'; readonly number: number; readonly ofInstance: boolean }
  /** Announces the stop. Each connection closes after its next response. */
  | { readonly kind: 'drain' }
  /** Stops the worker. `withinMs` is the time limit for requests in flight, in milliseconds. */
  | { readonly kind: 'stop'; readonly withinMs: number };

/** Messages from a worker to the supervisor. */
export type WorkerMessage =
  | { readonly kind: 'listening'; readonly url: string; readonly example: string }
  /** The worker runs background work. `demo` is set if it created the demo organization. */
  | { readonly kind: 'leading'; readonly demo: Demo | undefined }
  /** The worker cannot serve and is exiting. */
  | { readonly kind: 'failed'; readonly message: string; readonly isUsers: boolean }
  | { readonly kind: 'task'; readonly name: string }
  | { readonly kind: 'pong' }
  | { readonly kind: 'report'; readonly number: number; readonly readiness: ProcessReport | undefined }
  | { readonly kind: 'metrics'; readonly number: number; readonly families: readonly FamilyValues[] };

/** A message of one kind from a worker. */
export type WorkerMessageOf<Kind extends WorkerMessage['kind']> = WorkerMessage & { readonly kind: Kind };

/**
 * Timeout for a worker's report, in milliseconds. Slightly longer than the timeout for the report's database
 * check.
 */
const reportTimeoutMs = 1_500;

/** Sends a message to a worker. Does nothing if the worker has disconnected. */
export const sendMessage = (worker: Worker, message: SupervisorMessage): void => {
  if (worker.isConnected()) worker.send(message);
};

/**
 * Waits for a message of one kind from a worker.
 * @throws the worker's error if it fails, or UserError if it exits
 */
export function waitForMessage<Kind extends WorkerMessage['kind']>(
  worker: Worker,
  kind: Kind,
): Promise<WorkerMessageOf<Kind>> {
  const { promise, resolve, reject } = Promise.withResolvers<WorkerMessageOf<Kind>>();
  const isMatch = (message: WorkerMessage): message is WorkerMessageOf<Kind> => message.kind === kind;
  const onMessage = (message: WorkerMessage) => {
    if (isMatch(message)) resolve(message);
    else if (message.kind === 'failed')
      reject(message.isUsers ? new UserError(message.message) : new Error(message.message));
  };
  // Messages sent before the worker's exit arrive before this event.
  const onDisconnect = () => reject(new UserError('a worker exited before it was ready'));
  worker.on('message', onMessage).once('disconnect', onDisconnect);
  return promise.finally(() => worker.off('message', onMessage).off('disconnect', onDisconnect));
}

/** Sends a request to a worker. @returns its response, or undefined after a timeout */
export async function ask<Kind extends 'report' | 'metrics'>(
  worker: Worker,
  question: SupervisorMessage & { readonly kind: Kind },
): Promise<WorkerMessageOf<Kind> | undefined> {
  const { kind, number } = question;
  const { promise, resolve } = Promise.withResolvers<WorkerMessageOf<Kind> | undefined>();
  const isMatch = (message: WorkerMessage): message is WorkerMessageOf<Kind> =>
    message.kind === kind && 'number' in message && message.number === number;
  const onMessage = (message: WorkerMessage) => {
    if (isMatch(message)) resolve(message);
  };
  worker.on('message', onMessage);
  const timer = setTimeout(resolve, reportTimeoutMs, undefined);
  sendMessage(worker, question);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.off('message', onMessage);
  }
}
