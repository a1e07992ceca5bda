import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';

/** What stops with a service. */
export interface Stopping {
  readonly app: FastifyInstance;
  /** How long it goes on serving after SIGTERM, in milliseconds, so that balancers see first that it is not ready. */
  readonly delayMs: number;
  /** Closes what requests need, once they have ended. */
  readonly close: () => Promise<void>;
}

/** How long requests may take that were in flight when the service closed. */
const drainMs = 6_500;
/** How long closing the database may take: a silent one never says goodbye. */
const closeMs = 1_000;
/** npm passes on a signal that a terminal has sent to the whole group: both copies are one. */
const copyMs = 1_000;

/**
 * Stops on SIGTERM and SIGINT with exit code 0, or 1 where requests had to be cut off. A second signal ends the
 * process at once.
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
    // Whoever stops it from a terminal has no balancer in front.
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
