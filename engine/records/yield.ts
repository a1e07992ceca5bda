import { setImmediate } from 'node:timers/promises';

/** Maximum duration of work without a pause, in milliseconds. */
const sliceMs = 10;

/** Returns a function for long-running work to call between steps; it regularly lets other requests run. */
export function createYield(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < sliceMs) return undefined;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}
