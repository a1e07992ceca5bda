import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Coalesces concurrent calls: one runs at a time, and calls during a run share the next one. A result is never older than
 * the call it is returned to.
 */
export function coalesce<T>(ask: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const after = async (previous: Promise<unknown>): Promise<T> => {
    await previous;
    await nextTurn();
    next = undefined;
    const result = ask();
    running = result.catch(() => {});
    return result;
  };
  return () => {
    next ??= after(running);
    return next;
  };
}
