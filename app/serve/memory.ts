import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Delay of the collection after the start, in milliseconds. */
const delayMs = 1000;

/**
 * Collects the garbage of the start once. V8 releases memory of an idle process gradually, but only after a full
 * collection, which an idle service does not trigger for hours.
 */
export function collectGarbageAfterStart(): void {
  setTimeout(() => {
    try {
      // The only way to expose `gc` in a process that was started without the flag.
      setFlagsFromString('--expose-gc');
      const collect = runInNewContext('gc') as (options: { type: 'major'; execution: 'sync' }) => void;
      collect({ type: 'major', execution: 'sync' });
    } catch {
      // If flags are frozen, the memory is released later.
    }
  }, delayMs).unref();
}
