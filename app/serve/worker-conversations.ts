import type { Worker } from 'node:cluster';
import { UserError } from '../../engine/errors.ts';
import type { SupervisorMessage, WorkerMessage, WorkerMessageOf } from './worker-messages.ts';

/** How long a worker may take to report, in milliseconds: a little longer than the database may take. */
const reportMs = 1_500;

/** Sends a message to a worker; does nothing if the worker has disconnected. */
export const tell = (worker: Worker, message: SupervisorMessage): void => {
  if (worker.isConnected()) worker.send(message);
};

/** Waits for a worker's message of one kind. @throws the worker's reason if it ends instead */
export function hear<Kind extends WorkerMessage['kind']>(
  worker: Worker,
  kind: Kind,
): Promise<WorkerMessageOf<Kind>> {
  const { promise, resolve, reject } = Promise.withResolvers<WorkerMessageOf<Kind>>();
  const isWanted = (message: WorkerMessage): message is WorkerMessageOf<Kind> => message.kind === kind;
  const onMessage = (message: WorkerMessage) => {
    if (isWanted(message)) resolve(message);
    else if (message.kind === 'failed')
      reject(message.isUsers ? new UserError(message.message) : new Error(message.message));
  };
  // Messages sent before the end arrive before this event.
  const onDisconnect = () => reject(new UserError('a worker exited before it could serve'));
  worker.on('message', onMessage).once('disconnect', onDisconnect);
  return promise.finally(() => worker.off('message', onMessage).off('disconnect', onDisconnect));
}

/** Asks a worker a question. @returns its response, or undefined if none arrives in time */
export async function ask<Kind extends 'report' | 'metrics'>(
  worker: Worker,
  question: SupervisorMessage & { readonly kind: Kind },
): Promise<WorkerMessageOf<Kind> | undefined> {
  const { kind, number } = question;
  const { promise, resolve } = Promise.withResolvers<WorkerMessageOf<Kind> | undefined>();
  const isWanted = (message: WorkerMessage): message is WorkerMessageOf<Kind> =>
    message.kind === kind && 'number' in message && message.number === number;
  const onMessage = (message: WorkerMessage) => {
    if (isWanted(message)) resolve(message);
  };
  worker.on('message', onMessage);
  const timer = setTimeout(resolve, reportMs, undefined);
  tell(worker, question);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    worker.off('message', onMessage);
  }
}
