import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** How long after its start a service collects what that has left, in milliseconds. */
const afterMs = 1000;

/**
 * Collects once what a start has left. V8 gives memory back little by little while a process is idle, but begins only
 * after a whole collection, and an idle service makes none for hours.
 */
export function collectGarbageAfterStart(): void {
  setTimeout(() => {
    try {
      // Node has no other way to ask for one in a process that was started without the flag.
      setFlagsFromString('--expose-gc');
      const collect = runInNewContext('gc') as (options: { type: 'major'; execution: 'sync' }) => void;
      collect({ type: 'major', execution: 'sync' });
    } catch {
      // Where flags may not change: the memory is given back later.
    }
  }, afterMs).unref();
}
