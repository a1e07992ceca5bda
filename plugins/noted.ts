import type { FastifyInstance } from 'fastify';

/** How often "last used" is written, in milliseconds. */
const everyMs = 30_000;

/** Collects when things were last used and writes it now and then, off the path of requests. */
export interface Noted<T> {
  readonly note: (id: string, value: T) => void;
  readonly get: (id: string) => T | undefined;
}

/** Notes uses; what is left is written when the app closes. A failure to write loses the note, nothing else. */
export function noted<T>(
  app: FastifyInstance,
  write: (used: ReadonlyMap<string, T>) => Promise<void>,
): Noted<T> {
  let used = new Map<string, T>();
  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const batch = used;
    used = new Map();
    try {
      await write(batch);
    } catch (cause) {
      app.log.warn({ code: (cause as { code?: string }).code }, 'could not note what was last used');
    }
  };
  const timer = setInterval(flush, everyMs).unref();
  app.addHook('onClose', async () => {
    clearInterval(timer);
    await flush();
  });
  return { note: (id, value) => used.set(id, value), get: (id) => used.get(id) };
}
