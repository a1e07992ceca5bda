// CPU time limits for tests. They do not depend on what other processes do on the machine.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

/**
 * Runs synchronous work and checks its CPU time.
 * @param limitMs CPU time of this thread in milliseconds
 */
export function takes<T>(limitMs: number, work: () => T): T {
  const start = process.threadCpuUsage();
  const result = work();
  const { user, system } = process.threadCpuUsage(start);
  const ms = (user + system) / 1000;
  assert.ok(ms < limitMs, `took ${Math.round(ms)} ms of CPU time; the limit is ${limitMs} ms`);
  return result;
}

/** Returns the CPU time in milliseconds that this process, including all threads, spends on the work. */
export async function cpuOf(work: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

/** Takes about 10 ms of CPU time on a typical machine. The time that it takes here measures this process's speed. */
function calibrate(): void {
  let digest = '';
  for (let round = 0; round < 6000; round++) digest = createHash('sha256').update(digest).digest('hex');
}

/**
 * Checks that work costs this process at most as much CPU time as this number of calibration loops, which run before
 * and after it. The result does not depend on other processes or the machine's speed.
 */
export async function takesAtMost(loops: number, work: () => Promise<unknown>): Promise<void> {
  const before = await cpuOf(calibrate);
  const spent = await cpuOf(work);
  const loop = Math.max(before, await cpuOf(calibrate));
  assert.ok(
    spent <= loops * loop,
    `took ${(spent / loop).toFixed(1)} calibration loops; the limit is ${loops}`,
  );
}
