import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Delay of the collection after the start, in milliseconds. */
const delayMs = 1000;

/**
 * Runs one full garbage collection after the start. Only after a full collection does V8 gradually release the memory of
 * an idle process, and an idle service does not trigger one for hours.
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
