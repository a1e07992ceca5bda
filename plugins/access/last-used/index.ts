// Last used: collects the times at which keys and sessions were last used, and stores them periodically.
// May import engine.

import type { FastifyInstance } from 'fastify';
import { coalesce, failureDetails } from '../../../engine/database/index.ts';

/** Interval between writes, in milliseconds. */
const intervalMs = 30_000;

/** Times at which keys or sessions were last used. Stored periodically, outside requests. */
interface LastUsed<T> {
  readonly record: (id: string, value: T) => void;
  /** Returns the time of the last use if it has not been stored yet. */
  readonly get: (id: string) => T | undefined;
}

/**
 * Collects uses and stores them periodically and when the app closes. If a write fails, only the uses in that batch
 * are lost.
 */
export function lastUsed<T>(
  app: FastifyInstance,
  store: (uses: ReadonlyMap<string, T>) => Promise<void>,
): LastUsed<T> {
  let pending = new Map<string, T>();
  /** Uses that are being stored. Until then, they are only known here. */
  let storing: ReadonlyMap<string, T> = new Map();
  const flush = coalesce(async (): Promise<void> => {
    if (pending.size === 0) return;
    storing = pending;
    pending = new Map();
    try {
      await store(storing);
    } catch (cause) {
      app.log.warn(failureDetails(cause), 'failed to store last-used times');
    } finally {
      storing = new Map();
    }
  });
  const timer = setInterval(flush, intervalMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await flush();
  });
  return {
    record: (id, value) => pending.set(id, value),
    get: (id) => pending.get(id) ?? storing.get(id),
  };
}
