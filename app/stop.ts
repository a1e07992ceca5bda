import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';

/** A service to stop. */
export interface Stopping {
  readonly app: FastifyInstance;
  /** How long it keeps serving after SIGTERM, in milliseconds, so that balancers see that it is not ready. */
  readonly delayMs: number;
  /** Closes the resources of requests after the requests have ended. */
  readonly close: () => Promise<void>;
}

/** How long requests in flight may take after the service closed, in milliseconds. */
const drainMs = 6_500;
/** How long closing the database may take, in milliseconds: a silent server never responds. */
const closeMs = 1_000;
/** npm forwards a signal that a terminal has already sent to the whole group; within this time it counts as one. */
const copyMs = 1_000;

/**
 * Stops on SIGTERM and SIGINT with exit code 0, or 1 if requests had to be cut off. A second signal ends the
 * process immediately.
 */
export function stopOnSignals({ app, delayMs, close }: Stopping): void {
  let began: number | undefined;
  const stop = async (signal: NodeJS.Signals) => {
    if (began !== undefined) {
      if (performance.now() - began > copyMs) process.exit(1);
      return;
    }
    began = performance.now();
    app.leave();
    // SIGINT comes from a terminal, where no balancer is in front.
    if (signal === 'SIGTERM') await pause(delayMs);
    const isClean = await drain(app);
    await Promise.race([close(), pause(closeMs)]);
    process.exit(isClean ? 0 : 1);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

/** Closes the listener and waits for requests in flight. @returns whether all of them got their response */
async function drain(app: FastifyInstance): Promise<boolean> {
  const late = pause(drainMs, 'late');
  if ((await Promise.race([app.close(), late])) !== 'late') return true;
  const open = await new Promise<number>((resolve) =>
    app.server.getConnections((_error, count) => resolve(count)),
  );
  if (open > 0) app.log.warn(`${open} requests were still in flight when the time to stop was up`);
  return open === 0;
}
