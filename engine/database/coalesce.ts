import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Shares the results of a question among those who ask at about the same time: one at a time is on its way, and whoever
 * asks meanwhile waits for the next one. No result is older than the call that it is returned to.
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
