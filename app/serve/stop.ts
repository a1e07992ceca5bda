import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';

/** What stops when a signal says so. */
export interface Stoppable {
  /** Begins to stop: everything is still served. */
  readonly leave: () => void;
  /** How long it keeps serving after SIGTERM, in milliseconds, so that balancers see that it is not ready. */
  readonly delayMs: number;
  /** Ends what is left. @returns whether all requests got their response */
  readonly stop: () => Promise<boolean>;
  /** Called before the process ends at a second signal. */
  readonly abandon?: () => void;
}

/** How long requests in flight may take after the service closed, in milliseconds. */
export const drainMs = 6_500;
/** How long closing the database may take, in milliseconds: a silent server never responds. */
export const closeMs = 1_000;
/** npm forwards a signal that a terminal has already sent to the whole group; within this time it counts as one. */
const copyMs = 1_000;

/**
 * Stops on SIGTERM and SIGINT with exit code 0, or 1 if requests had to be cut off. A second signal ends the
 * process immediately.
 */
export function stopOnSignals({ leave, delayMs, stop, abandon }: Stoppable): void {
  let began: number | undefined;
  const onSignal = async (signal: NodeJS.Signals) => {
    if (began !== undefined) {
      if (performance.now() - began <= copyMs) return;
      abandon?.();
      process.exit(1);
    }
    began = performance.now();
    leave();
    // SIGINT comes from a terminal, where no balancer is in front.
    if (signal === 'SIGTERM') await pause(delayMs);
    process.exit((await stop()) ? 0 : 1);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/**
 * Stops a service: the listener is closed, requests in flight are waited for, then what they need is closed.
 * @param close closes the resources of requests
 * @param withinMs how long requests may take
 * @returns whether all requests got their response
 */
export async function stopService(
  app: FastifyInstance,
  close: () => Promise<void>,
  withinMs = drainMs,
): Promise<boolean> {
  const isClean = await drain(app, withinMs);
  await Promise.race([close(), pause(closeMs)]);
  return isClean;
}

/** Closes the listener and waits for requests in flight. @returns whether all of them got their response */
async function drain(app: FastifyInstance, withinMs: number): Promise<boolean> {
  const late = pause(withinMs, 'late');
  if ((await Promise.race([app.close(), late])) !== 'late') return true;
  const open = await new Promise<number>((resolve) =>
    app.server.getConnections((_error, count) => resolve(count)),
  );
  if (open > 0) app.log.warn(`${open} requests were still running when the stop timeout expired`);
  return open === 0;
}
