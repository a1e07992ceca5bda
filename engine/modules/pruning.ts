import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';

/** How often a node removes old rows, in milliseconds. */
const everyMs = 10 * 60_000;
/** Rows that one statement removes, and the pause after it, in which other statements run. */
export const pruningStep = 500;
const pauseMs = 100;

/**
 * Removes old rows now and then, in small steps, while the service runs.
 * @param what is removed, as in "old events", for the log
 * @param steps each removes up to {@link pruningStep} rows and says how many
 */
export function pruneRegularly(
  app: FastifyInstance,
  what: string,
  steps: readonly (() => Promise<number>)[],
): void {
  const stopping = new AbortController();
  const { signal } = stopping;
  const sweep = async () => {
    for (const step of steps) {
      while (!signal.aborted && (await step()) === pruningStep) {
        await pause(pauseMs, undefined, { signal, ref: false }).catch(() => {});
      }
    }
  };
  let running: Promise<void> | undefined;
  const begin = () => {
    running ??= sweep()
      .catch((cause: { code?: string }) =>
        app.log.warn({ code: cause.code }, `${what} could not be removed; trying again later`),
      )
      .finally(() => {
        running = undefined;
      });
  };
  const timer = setInterval(begin, everyMs).unref();
  app.addHook('onReady', async () => begin());
  app.addHook('preClose', async () => {
    stopping.abort();
    clearInterval(timer);
    await running;
  });
}
