import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Delay between the start and the garbage collection, in milliseconds. */
const delayMs = 1000;

/**
 * Runs one full garbage collection after the start. V8 gradually releases the memory of an idle process only after a
 * full collection, which an idle service does not trigger for hours.
 */
export function collectGarbageAfterStart(): void {
  setTimeout(() => {
    try {
      // The only way to expose `gc` in a process that was started without the flag.
      setFlagsFromString('--expose-gc');
      const collect = runInNewContext('gc') as (options: { type: 'major'; execution: 'sync' }) => void;
      collect({ type: 'major', execution: 'sync' });
    } catch {
      // If V8's flags are frozen, the memory is released later.
    }
  }, delayMs).unref();
}
