import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';

/** A service that signals can stop. */
interface Stoppable {
  /** Announces the stop. Requests are still served. */
  readonly drain: () => void;
  /**
   * Time between `drain` and `stop` after SIGTERM, in milliseconds, so that load balancers notice that the service is
   * not ready.
   */
  readonly delayMs: number;
  /** Stops the service. @returns whether all requests were completed */
  readonly stop: () => Promise<boolean>;
  /** Called before a second signal terminates the process. */
  readonly abandon?: () => void;
}

/** Time limit for requests in flight after the listener is closed, in milliseconds. */
export const drainMs = 6_500;
/** Time limit for closing the database, in milliseconds, because its server might not respond. */
export const closeMs = 1_000;
/**
 * Period in which a second signal is ignored, in milliseconds, because npm forwards signals that a terminal
 * has already sent.
 */
const duplicateSignalMs = 1_000;

/**
 * Stops on SIGTERM and SIGINT with exit code 0, or with exit code 1 if requests were cut off. A second signal
 * terminates the process immediately.
 */
export function stopOnSignals({ drain, delayMs, stop, abandon }: Stoppable): void {
  let startedAt: number | undefined;
  const onSignal = async (signal: NodeJS.Signals) => {
    if (startedAt !== undefined) {
      if (performance.now() - startedAt <= duplicateSignalMs) return;
      abandon?.();
      process.exit(1);
    }
    startedAt = performance.now();
    drain();
    // SIGINT comes from a terminal, so the service does not wait for load balancers.
    if (signal === 'SIGTERM') await pause(delayMs);
    process.exit((await stop()) ? 0 : 1);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/**
 * Stops a service. Closes the listener, waits for requests in flight, and then closes the resources they use.
 * @param close closes resources used by requests, for example the database
 * @param withinMs time limit for requests in flight in milliseconds
 * @returns whether all requests were completed
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

/** Closes the listener and waits for requests in flight. @returns whether all of them were completed */
async function drain(app: FastifyInstance, withinMs: number): Promise<boolean> {
  const timeout = pause(withinMs, 'late');
  if ((await Promise.race([app.close(), timeout])) !== 'late') return true;
  const openConnections = await new Promise<number>((resolve) =>
    app.server.getConnections((_error, count) => resolve(count)),
  );
  if (openConnections > 0)
    app.log.warn(`${openConnections} requests were still running when the stop timeout expired`);
  return openConnections === 0;
}
