import { setImmediate as nextTurn } from 'node:timers/promises';
import { runOutsideRequests } from './requests.ts';

/**
 * Coalesces concurrent calls. Only one call runs at a time, and calls made during a run share the next run,
 * so a caller never receives a result that was computed before its call. A run is not cancelled if the client
 * of its first caller disconnects.
 */
export function coalesce<T>(run: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const runAfter = async (previous: Promise<unknown>): Promise<T> => {
    await previous;
    await nextTurn();
    next = undefined;
    const result = runOutsideRequests(run);
    current = result.catch(() => {});
    return result;
  };
  return () => {
    next ??= runAfter(current);
    return next;
  };
}
