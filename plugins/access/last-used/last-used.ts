import type { FastifyInstance } from 'fastify';

/** How often "last used" is stored, in milliseconds. */
const intervalMs = 30_000;

/** When things were last used: collected in memory and stored periodically, outside of requests. */
export interface LastUsed<T> {
  readonly record: (id: string, value: T) => void;
  /** The use that is not stored yet. */
  readonly get: (id: string) => T | undefined;
}

/** Collects uses, and stores the rest when the app closes. If storing fails, only these uses are lost. */
export function lastUsed<T>(
  app: FastifyInstance,
  store: (used: ReadonlyMap<string, T>) => Promise<void>,
): LastUsed<T> {
  let used = new Map<string, T>();
  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const batch = used;
    used = new Map();
    try {
      await store(batch);
    } catch (cause) {
      app.log.warn({ code: (cause as { code?: string }).code }, 'could not store what was last used');
    }
  };
  const timer = setInterval(flush, intervalMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await flush();
  });
  return { record: (id, value) => used.set(id, value), get: (id) => used.get(id) };
}
