// Time that a test may measure: what this thread computes, however busy the machine is with other things.
import assert from 'node:assert/strict';

/**
 * Does some work that does not wait and checks how much computing it took.
 * @param limitMs of CPU time of this thread
 */
export function takes<T>(limitMs: number, work: () => T): T {
  const start = process.threadCpuUsage();
  const result = work();
  const { user, system } = process.threadCpuUsage(start);
  const ms = (user + system) / 1000;
  assert.ok(ms < limitMs, `${Math.round(ms)} ms of CPU time, and not less than ${limitMs}`);
  return result;
}
