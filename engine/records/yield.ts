import { setImmediate } from 'node:timers/promises';

/** How long work goes on without a pause, in milliseconds. */
const sliceMs = 10;

/** Makes a function that long work calls between its parts: now and then it lets other requests run. */
export function createYield(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < sliceMs) return undefined;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
}
