import { setImmediate } from 'node:timers/promises';

/** Maximum duration of work without a pause, in milliseconds. */
const sliceMs = 10;

/**
 * Returns a function that long-running work calls between steps, so that other requests can run regularly.
 */
export function createYield(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < sliceMs) return undefined;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}
